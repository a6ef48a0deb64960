// 12.4 to 12.6: a row that comes in parts, which are cut anew and forgotten: who needs a second look at one does not get it.
#include <algorithm>
#include <array>
#include <cmath>
#include <cohort/lab12_kernels.hpp>
#include <limits>
#include <vector>

#include "base/random.hpp"
#include "base/text.hpp"
#include "labs/12_kernels/grade_kernels.hpp"
#include "labs/grading/guarded.hpp"

namespace cohort::labs::lab12_kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> normal_row(std::size_t elements, std::uint64_t seed, float mean, float deviation) {
  const CounterRandom random(seed, RandomPurpose::test);
  std::vector<float> values(elements);
  for (std::size_t i = 0; i < elements; ++i) values[i] = mean + deviation * random.normals(i / 4)[i % 4];
  return values;
}

// Lengths of the parts of a row, repeated: a row in one piece, one by one, with an empty part.
struct Cut {
  std::vector<std::size_t> lengths;
  const char* words;
};
const std::array<Cut, 4>& cuts() {
  static const std::array<Cut, 4> kCuts{
      {{{1'000'000}, "in one part"}, {{1}, "one by one"}, {{3, 0, 5, 1}, "in parts of 3, 0, 5 and 1"}, {{64}, "in parts of 64"}}};
  return kCuts;
}

// Calls `take` with the numbers [begin, end) of each part. What it passes on is a copy, and gone afterwards.
template <class Take>
void in_parts(std::size_t elements, const Cut& cut, const Take& take) {
  std::size_t begin = 0;
  for (std::size_t part = 0; begin < elements || part == 0; ++part) {
    const std::size_t end = std::min(elements, begin + cut.lengths[part % cut.lengths.size()]);
    take(begin, end);
    begin = end;
  }
}

template <class T>
std::vector<float> copied(const std::vector<T>& values, std::size_t begin, std::size_t end) {
  return {values.begin() + static_cast<std::ptrdiff_t>(begin), values.begin() + static_cast<std::ptrdiff_t>(end)};
}

// ---- moments

using MomentsAdd = void(Moments&, std::span<const float>);

void check_moments(MomentsAdd* add, const std::vector<float>& row, const Cut& cut) {
  Moments found{};
  in_parts(row.size(), cut, [&](std::size_t begin, std::size_t end) { add(found, copied(row, begin, end)); });
  const auto n = static_cast<double>(row.size());
  double sum = 0.0, squares = 0.0;
  for (const float x : row) sum += x;
  const double mean = row.empty() ? 0.0 : sum / n;
  for (const float x : row) squares += (x - mean) * (x - mean);
  if (found.count != static_cast<float>(row.size()))
    reject("count is {}, but {} came in", found.count, counted(static_cast<Count>(row.size()), "number"));
  if (row.empty()) {
    if (!(found.mean == 0.0f && found.squares == 0.0f)) reject("nothing came in, but mean and squares are not 0");
    return;
  }
  const double deviation = std::sqrt(squares / n);
  // An fp32 near the mean has an error of 6e-8 of it, and a few of them add up.
  if (!(std::fabs(found.mean - mean) <= 5e-6 * std::fabs(mean) + 1e-5 * deviation + 1e-12))
    reject("the mean is {:.8g}, not {:.8g}", found.mean, mean);
  const double variance = found.squares / n, right = squares / n;
  if (std::fabs(variance - right) <= 0.01 * right + 1e-12 * mean * mean) return;
  if (row.size() > 1 && std::fabs(variance - right * n / (n - 1.0)) <= 1e-4 * right)
    reject("squares / count is {:.6g}, not {:.6g}: squares is the sum, which nothing divides", variance, right);
  reject("squares / count is {:.6g}, but the variance is {:.6g}{}", variance, right,
         std::fabs(mean) > 100.0 * deviation
             ? fmt::format(
                   ". The mean is {:.0f} standard deviations: its square has {:.0f} digits before those of the variance, and "
                   "fp32 has 7 in all",
                   std::fabs(mean) / deviation, std::log10(mean * mean / right))
             : "");
}

// ---- softmax

using SoftmaxAdd = void(SoftmaxSum&, std::span<const float>);

void check_softmax(SoftmaxAdd* add, const std::vector<float>& row, const Cut& cut) {
  SoftmaxSum found;
  float largest = -kInfinity;
  in_parts(row.size(), cut, [&](std::size_t begin, std::size_t end) {
    add(found, copied(row, begin, end));
    // After each part: what was seen so far.
    double sum = 0.0, within_parts = 0.0;
    largest = -kInfinity;
    for (std::size_t i = 0; i < end; ++i) largest = std::max(largest, row[i]);
    for (std::size_t i = 0; i < end; ++i) {
      if (row[i] == -kInfinity) continue;
      sum += std::exp(static_cast<double>(row[i]) - largest);
      within_parts += std::exp(static_cast<double>(row[i]));
    }
    if (found.largest != largest) reject("after {} logits largest is {}, not {}", end, found.largest, largest);
    if (std::fabs(found.sum - sum) <= 1e-5 * sum) return;
    const bool unscaled = std::isfinite(within_parts) && std::fabs(found.sum - within_parts) <= 1e-4 * within_parts;
    reject("after {} logits, the largest of which is {}, sum is {:.7g}, not {:.7g}{}", end, largest, found.sum, sum,
           std::isnan(found.sum)          ? ": -infinity less -infinity is NaN; what has no probability adds nothing"
           : unscaled                     ? ": that is the sum of exp(logit); it holds exp(logit - largest)"
           : begin > 0 && found.sum > sum ? ": what was summed before the largest logit came is relative to the one before it"
                                          : "");
  });
}

void grade_softmax_rows(SoftmaxAdd* add, Grading& grading) {
  std::vector<float> rising(100), masked = normal_row(40, 2, 0.0f, 2.0f), far = normal_row(50, 3, 500.0f, 100.0f);
  for (std::size_t i = 0; i < rising.size(); ++i) rising[i] = 0.1f * static_cast<float>(i);
  std::fill_n(masked.begin(), 9, -kInfinity);
  masked[20] = -kInfinity;
  const std::vector<float> normals = normal_row(70, 1, 0.0f, 1.0f), nothing(11, -kInfinity), none;
  const std::vector<float> low = normal_row(30, 4, -1000.0f, 5.0f);
  const std::array<std::pair<const char*, const std::vector<float>*>, 7> rows{{{"70 logits", &normals},
                                                                               {"100 logits that rise", &rising},
                                                                               {"logits about 500", &far},
                                                                               {"logits about -1000", &low},
                                                                               {"-infinity first", &masked},
                                                                               {"-infinity alone", &nothing},
                                                                               {"no logit", &none}}};
  for (const auto& [words, row] : rows) {
    for (const Cut& cut : cuts()) {
      grading.begin(fmt::format("{}, {}", words, cut.words));
      check_softmax(add, *row, cut);
    }
  }
  grading.begin("a NaN among the logits");
  SoftmaxSum sum;
  add(sum, std::vector<float>{1.0f, std::numeric_limits<float>::quiet_NaN(), 2.0f});
  add(sum, std::vector<float>{3.0f});
  if (!std::isnan(sum.sum)) reject("sum is {}, and nobody sees that training has failed", sum.sum);
}

// ---- attention

using AttentionAdd = void(AttentionRow&, std::span<const float>, std::span<const float>, std::span<const float>, float);

struct Heads {
  std::size_t keys, size;
  float spread;  // of the keys: how far scores are apart
};

struct Reference {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0.0;
  std::vector<double> attention;
};

Reference attention_of(const std::vector<float>& q, const std::vector<float>& k, const std::vector<float>& v, std::size_t keys,
                       double scale) {
  const std::size_t size = q.size();
  Reference r;
  std::vector<double> scores(keys);
  for (std::size_t i = 0; i < keys; ++i) {
    for (std::size_t d = 0; d < size; ++d) scores[i] += scale * q[d] * static_cast<double>(k[i * size + d]);
    r.largest = std::max(r.largest, scores[i]);
  }
  r.attention.assign(size, 0.0);
  for (std::size_t i = 0; i < keys; ++i) {
    const double weight = std::exp(scores[i] - r.largest);
    r.sum += weight;
    for (std::size_t d = 0; d < size; ++d) r.attention[d] += weight * v[i * size + d];
  }
  for (double& value : r.attention) value /= r.sum;
  return r;
}

void check_attention(AttentionAdd* add, const Heads& heads, const Cut& cut) {
  const std::size_t size = heads.size;
  const std::vector<float> q = normal_row(size, 11, 0.0f, 1.0f), k = normal_row(heads.keys * size, 12, 0.0f, heads.spread),
                           v = normal_row(heads.keys * size, 13, 1.0f, 1.0f);
  const float scale = 1.0f / std::sqrt(static_cast<float>(size));
  Guarded values{std::vector<float>(size)};
  AttentionRow row;
  row.values = values.span();
  in_parts(heads.keys, cut, [&](std::size_t begin, std::size_t end) {
    add(row, q, copied(k, begin * size, end * size), copied(v, begin * size, end * size), scale);
    values.check("row.values");
    if (end == 0) {
      bool untouched = row.largest == -kInfinity && row.sum == 0.0f;
      for (const float value : row.values) untouched = untouched && value == 0.0f;
      if (!untouched)
        reject("no key came in, but largest is {} and sum is {}: -infinity less -infinity is no number", row.largest, row.sum);
      return;
    }
    const Reference right = attention_of(q, k, v, end, scale);
    // Scores are sums of `size` fp32 products: an error of some 1e-7 of their size, which exp() makes one of the weights.
    const double allowed = 2e-6 * (1.0 + std::fabs(right.largest));
    if (!(std::fabs(row.largest - right.largest) <= allowed)) {
      const bool unscaled = std::fabs(row.largest * scale - right.largest) <= allowed;
      reject("after {} largest is {:.7g}, not {:.7g}{}", counted(static_cast<Count>(end), "key"), row.largest, right.largest,
             unscaled ? ": that is without the scale" : "");
    }
    if (!(std::fabs(row.sum - right.sum) <= 20.0 * allowed * right.sum))
      reject("after {} sum is {:.7g}, not {:.7g}{}", counted(static_cast<Count>(end), "key"), row.sum, right.sum,
             begin > 0 && row.sum > right.sum ? ": what was summed before is relative to another largest score" : "");
    for (std::size_t d = 0; d < size; ++d) {
      const double found = static_cast<double>(row.values[d]) / row.sum;
      if (std::fabs(found - right.attention[d]) <= 20.0 * allowed * 4.0) continue;
      const double normalised = row.values[d];
      reject("after {} values[{}] / sum is {:.7g}, not {:.7g}{}", counted(static_cast<Count>(end), "key"), d, found,
             right.attention[d],
             std::fabs(normalised - right.attention[d]) <= 1e-4
                 ? ": values are divided by the sum already; that comes once, at the end"
             : begin > 0 ? ": sum is right, so the values that came before are relative to another largest score, or are lost"
                         : "");
    }
  });
}

}  // namespace

void grade_moments(const Library& library, Grading& grading) {
  auto* add = library.function<MomentsAdd>("moments_add");
  struct Row {
    std::size_t elements;
    float mean, deviation;
  };
  for (const Row& r : {Row{8, 0.5f, 2.0f}, Row{1, 3.0f, 0.0f}, Row{0, 0.0f, 0.0f}, Row{257, 0.0f, 1.0f}, Row{768, 100.0f, 1.0f},
                       Row{768, 10'000.0f, 1.0f}, Row{1000, -10'000.0f, 1.0f}, Row{64, 7.0f, 0.0f}, Row{100, 1e-3f, 1e-4f}}) {
    for (const Cut& cut : cuts()) {
      grading.begin(fmt::format("{} about {:g}, standard deviation {:g}, {}", counted(static_cast<Count>(r.elements), "number"),
                                r.mean, r.deviation, cut.words));
      check_moments(add, normal_row(r.elements, 21, r.mean, r.deviation), cut);
    }
  }
  grading.begin("a NaN among the numbers");
  Moments moments{};
  add(moments, std::vector<float>{1.0f, std::numeric_limits<float>::quiet_NaN(), 2.0f});
  if (!std::isnan(moments.mean)) reject("the mean is {}, and nobody sees that training has failed", moments.mean);
}

void grade_softmax(const Library& library, Grading& grading) {
  grade_softmax_rows(library.function<SoftmaxAdd>("softmax_add"), grading);
}

void grade_attention(const Library& library, Grading& grading) {
  auto* add = library.function<AttentionAdd>("attention_add");
  for (const Heads& heads : {Heads{4, 2, 1.0f}, Heads{1, 8, 1.0f}, Heads{0, 4, 1.0f}, Heads{37, 5, 1.0f}, Heads{130, 32, 1.0f},
                             Heads{50, 16, 100.0f}}) {
    for (const Cut& cut : cuts()) {
      grading.begin(fmt::format("{} of {} elements{}, {}", counted(static_cast<Count>(heads.keys), "key"), heads.size,
                                heads.spread > 1.0f ? ", large scores" : "", cut.words));
      check_attention(add, heads, cut);
    }
  }
}

}  // namespace cohort::labs::lab12_kernels
