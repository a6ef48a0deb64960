// Partial attentions and the ring: held against attention over all keys in double precision.
#include <cmath>
#include <cohort/lab07_tensor_parallel.hpp>
#include <limits>
#include <set>
#include <vector>

#include "base/text.hpp"
#include "labs/07_tensor_parallel/tensor_parallel_grades.hpp"
#include "labs/grading/guarded.hpp"
#include "labs/grading/ranks.hpp"

namespace cohort::labs::lab07_tensor_parallel {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();
// Sums of a few dozen fp32 numbers of the size of 1.
constexpr double kTolerance = 1e-5;

using Merge = void(std::span<float>, float&, std::span<const float>, float);

struct MergeCase {
  std::size_t head_size;
  float lse, part_lse;
};

void check_merge(Merge* merge, const MergeCase& one) {
  std::vector<float> own(one.head_size), part(one.head_size);
  for (std::size_t i = 0; i < one.head_size; ++i) {
    own[i] = 1.0f + 0.5f * static_cast<float>(i);
    part[i] = -2.0f + 0.25f * static_cast<float>(i);
  }
  Guarded out(own);
  float lse = one.lse;
  merge(out.span(), lse, part, one.part_lse);
  out.check("out");
  const double largest = std::max(one.lse, one.part_lse);
  const bool nothing = largest == kNothing;
  const double weight = nothing ? 1.0 : std::exp(one.lse - largest),
               part_weight = nothing ? 0.0 : std::exp(one.part_lse - largest);
  const double sum = weight + part_weight, right_lse = nothing ? largest : largest + std::log(sum);
  const char* beyond = "exp of such a number is beyond fp32: only differences of the two may go into exp";
  const char* no_number = "-infinity less -infinity is no number";
  for (std::size_t i = 0; i < one.head_size; ++i) {
    const double right = (weight * own[i] + part_weight * part[i]) / sum;
    const auto is = [&](double other) { return std::fabs(out[i] - other) <= kTolerance * std::max(1.0, std::fabs(other)); };
    if (is(right)) continue;
    std::string words;
    if (std::isnan(out[i])) words = fmt::format(": {}", nothing ? no_number : beyond);
    if (is(0.5 * (own[i] + part[i]))) words = ": the plain average, as if both were over equal sums of exp(score)";
    if (is(own[i] + part[i])) words = ": the plain sum; each counts with its share of the whole softmax";
    if (is(weight * own[i] + part_weight * part[i])) words = ": the weights do not add up to 1";
    if (is((part_weight * own[i] + weight * part[i]) / sum)) words = ": each has the weight of the other";
    reject("out [{}] is {}, not {}{}", i, number(out[i]), number(right), words);
  }
  if (nothing ? lse == kNothing : std::fabs(lse - right_lse) <= kTolerance * std::max(1.0, std::fabs(right_lse))) return;
  std::string words;
  if (std::isnan(lse)) words = fmt::format(": {}", nothing ? no_number : beyond);
  if (lse == one.lse) words = ": it is as before; the next merge needs that of all keys so far";
  if (lse == one.lse + one.part_lse) words = ": the logarithm of a sum is not the sum of logarithms";
  if (static_cast<double>(lse) == largest && words.empty()) words = ": the larger of the two alone";
  reject("lse is {}, not {}{}", number(lse), number(right_lse), words);
}

// A sample of causal attention with one head.
struct Sample {
  int ranks;
  std::size_t tokens, head_size;  // tokens of a rank

  float value(std::size_t what, std::size_t token, std::size_t i) const {
    return std::sin(static_cast<float>(what * 31 + token * 17 + i * 5 + token * i));
  }
  // Keys, then values.
  std::vector<float> block(int owner) const {
    std::vector<float> rows;
    for (std::size_t t = 0; t < tokens; ++t)
      for (std::size_t what = 1; what <= 2; ++what)
        for (std::size_t i = 0; i < head_size; ++i)
          rows.push_back(value(what, static_cast<std::size_t>(owner) * tokens + t, i) +
                         (what == 2 ? static_cast<float>(owner) : 0.0f));
    return rows;
  }
  // Attention of one token to those of some tokens [first, end) that it sees: the values' average, and lse.
  double attend(std::size_t query, std::size_t first, std::size_t end, std::vector<double>& out) const {
    double lse = -std::numeric_limits<double>::infinity(), sum = 0.0;
    std::vector<double> scores;
    for (std::size_t key = first; key < end && key <= query; ++key) {
      double score = 0.0;
      for (std::size_t i = 0; i < head_size; ++i) score += 3.0 * value(0, query, i) * value(1, key, i);
      scores.push_back(score / std::sqrt(static_cast<double>(head_size)));
      lse = std::max(lse, scores.back());
    }
    out.assign(head_size, 0.0);
    if (scores.empty()) return lse;
    for (const double score : scores) sum += std::exp(score - lse);
    for (std::size_t k = 0; k < scores.size(); ++k) {
      const std::size_t key = first + k, owner = key / tokens;
      for (std::size_t i = 0; i < head_size; ++i)
        out[i] += std::exp(scores[k] - lse) / sum * (value(2, key, i) + static_cast<double>(owner));
    }
    return lse + std::log(sum);
  }
};

// What a learner's ring attends with; it knows which block it is given.
class GradedQueries : public QueryBlock {
 public:
  GradedQueries(const Sample& sample, int rank) : sample_(sample), rank_(rank) {}

  std::size_t tokens() const override { return sample_.tokens; }
  std::size_t head_size() const override { return sample_.head_size; }
  void attend(int owner, std::span<const float> keys_values, std::span<float> out, std::span<float> lse) override {
    check_block(owner, keys_values);
    if (out.size() != sample_.tokens * sample_.head_size || lse.size() != sample_.tokens)
      reject("rank {} attends with out of {} elements and lse of {}: there are {} tokens of {} elements", rank_, out.size(),
             lse.size(), sample_.tokens, sample_.head_size);
    if (owner > rank_)
      reject("rank {} attends to the block of rank {}: none of its queries sees a token of that, all are later", rank_, owner);
    if (!attended_.insert(owner).second) reject("rank {} attends to the block of rank {} twice", rank_, owner);
    std::vector<double> row;
    for (std::size_t t = 0; t < sample_.tokens; ++t) {
      const auto first = static_cast<std::size_t>(owner) * sample_.tokens;
      lse[t] = static_cast<float>(
          sample_.attend(static_cast<std::size_t>(rank_) * sample_.tokens + t, first, first + sample_.tokens, row));
      for (std::size_t i = 0; i < row.size(); ++i) out[t * row.size() + i] = static_cast<float>(row[i]);
    }
  }

  void check_complete() const {
    for (int owner = 0; owner <= rank_; ++owner) {
      if (!attended_.contains(owner))
        reject("rank {} never attends to the block of rank {}, which its queries see", rank_, owner);
    }
  }

 private:
  void check_block(int owner, std::span<const float> keys_values) const {
    if (owner < 0 || owner >= sample_.ranks)
      reject("rank {} attends to the block of rank {}: of {} there are only ranks 0 to {}", rank_, owner,
             counted(sample_.ranks, "rank"), sample_.ranks - 1);
    const auto is_of = [&](int other) {
      const std::vector<float> block = sample_.block(other);
      return std::equal(block.begin(), block.end(), keys_values.begin(), keys_values.end());
    };
    if (is_of(owner)) return;
    for (int other = 0; other < sample_.ranks; ++other) {
      if (is_of(other))
        reject("rank {} attends to what it calls the block of rank {}, but it has that of rank {} by then", rank_, owner, other);
    }
    reject("rank {} attends to what it calls the block of rank {}, but that is no block of any rank", rank_, owner);
  }

  const Sample& sample_;
  int rank_;
  std::set<int> attended_;
};

using RingFunction = void(lab::Link&, QueryBlock&, std::span<const float>, std::span<float>, std::span<float>);

void check_rows(const Sample& sample, std::size_t rank, const Guarded& out, const Guarded& lse) {
  out.check(fmt::format("on rank {}, out", rank));
  lse.check(fmt::format("on rank {}, lse", rank));
  std::vector<double> row;
  for (std::size_t t = 0; t < sample.tokens; ++t) {
    const std::size_t query = rank * sample.tokens + t;
    const double right_lse = sample.attend(query, 0, query + 1, row);
    constexpr const char* kWhy = ": the blocks were the right ones, so it is how their results are put together";
    if (!(std::fabs(lse[t] - right_lse) <= kTolerance * std::max(1.0, std::fabs(right_lse))))
      reject("on rank {}, lse of its query {} is {}, not {}{}", rank, t, number(lse[t]), number(right_lse), kWhy);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const float found = out[t * row.size() + i];
      if (!(std::fabs(found - row[i]) <= kTolerance * std::max(1.0, std::fabs(row[i]))))
        reject("on rank {}, out [{}, {}] is {}, not {}{}", rank, t, i, number(found), number(row[i]), kWhy);
    }
  }
}

void check_sample(RingFunction* ring, const Sample& sample) {
  std::vector<std::vector<float>> blocks;
  std::vector<Guarded> out, lse;
  std::vector<GradedQueries> queries;
  for (int rank = 0; rank < sample.ranks; ++rank) {
    blocks.push_back(sample.block(rank));
    out.emplace_back(std::vector<float>(sample.tokens * sample.head_size, 77.0f));
    lse.emplace_back(std::vector<float>(sample.tokens, 77.0f));
    queries.emplace_back(sample, rank);
  }
  const Traffic traffic = run_ranks(sample.ranks, [&](lab::Link& link) {
    const auto rank = static_cast<std::size_t>(link.rank());
    ring(link, queries[rank], blocks[rank], out[rank].span(), lse[rank].span());
  });
  for (std::size_t rank = 0; rank < queries.size(); ++rank) {
    queries[rank].check_complete();
    check_rows(sample, rank, out[rank], lse[rank]);
    const Count sent = traffic.elements_sent[rank], right = (sample.ranks - 1) * static_cast<Count>(blocks[rank].size());
    if (sent > right)
      reject("rank {} sends {} elements: {} of {} elements go through it, so {}; after as many turns all ranks have seen all",
             rank, sent, counted(sample.ranks - 1, "block"), blocks[rank].size(), right);
  }
  if (traffic.messages_in_turn > sample.ranks - 1)
    reject("{} messages wait for each other: a ring has {} turns, and in each all ranks send at the same time",
           traffic.messages_in_turn, sample.ranks - 1);
}

}  // namespace

void grade_merge(const Library& library, Grading& grading) {
  auto* merge = library.function<Merge>("merge_attention");
  for (const MergeCase& one : std::vector<MergeCase>{{4, 0.0f, 1.0f},
                                                     {1, 2.0f, -1.5f},
                                                     {3, 0.5f, 0.5f},
                                                     {4, 1e4f, 9.999e3f},
                                                     {4, -1e4f, -9.9995e3f},
                                                     {2, 200.0f, -200.0f},
                                                     {4, 1.5f, kNothing},
                                                     {4, kNothing, 1.5f},
                                                     {3, kNothing, kNothing},
                                                     {16, -0.25f, 3.0f}}) {
    grading.begin(fmt::format("head size {}, lse {}, part_lse {}", one.head_size, one.lse, one.part_lse));
    check_merge(merge, one);
  }
}

void grade_ring_attention(const Library& library, Grading& grading) {
  auto* ring = library.function<RingFunction>("ring_attention");
  for (const Sample& sample : std::vector<Sample>{{2, 2, 2}, {1, 3, 4}, {3, 1, 2}, {4, 3, 1}, {5, 2, 3}, {8, 2, 4}}) {
    grading.begin(fmt::format("{}, {} each, head size {}", counted(sample.ranks, "rank"),
                              counted(static_cast<Count>(sample.tokens), "token"), sample.head_size));
    check_sample(ring, sample);
  }
}

}  // namespace cohort::labs::lab07_tensor_parallel
