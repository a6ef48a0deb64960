// The loss over a vocabulary that the ranks have between them, held against one in double precision.
#include <cmath>
#include <cohort/lab07_tensor_parallel.hpp>
#include <limits>
#include <numeric>
#include <vector>

#include "base/text.hpp"
#include "labs/07_tensor_parallel/tensor_parallel_grades.hpp"
#include "labs/grading/guarded.hpp"
#include "labs/grading/ranks.hpp"

namespace cohort::labs::lab07_tensor_parallel {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

enum class Logits { small, large, masked };

struct Problem {
  int ranks;
  std::size_t rows, vocabulary;
  Logits kind;

  std::size_t first_of(std::size_t rank) const { return rank * vocabulary / static_cast<std::size_t>(ranks); }
  int target(std::size_t row) const { return static_cast<int>((row * 5 + 2) % vocabulary); }
  float logit(std::size_t row, std::size_t entry) const {
    const float wave = std::sin(static_cast<float>(row * 13 + entry * 7));
    if (kind == Logits::large) return 1e4f * wave;
    // All but the target and a few: also all that some rank has.
    if (kind == Logits::masked && static_cast<int>(entry) != target(row) && entry % 4 != 0) return -kInfinity;
    return 3.0f * wave;
  }
  std::string words() const {
    const char* what = kind == Logits::large ? ", logits up to 1e4" : kind == Logits::masked ? ", masked entries" : "";
    return fmt::format("{}, {}, a vocabulary of {}{}", counted(ranks, "rank"), counted(static_cast<Count>(rows), "row"),
                       vocabulary, what);
  }
};

// Of a row, over entries [first, end).
struct Softmax {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0.0;
  double log_sum() const { return largest + std::log(sum); }
};

Softmax softmax_of(const Problem& problem, std::size_t row, std::size_t first, std::size_t end) {
  Softmax softmax;
  for (std::size_t j = first; j < end; ++j) softmax.largest = std::max<double>(softmax.largest, problem.logit(row, j));
  for (std::size_t j = first; j < end; ++j) softmax.sum += std::exp(problem.logit(row, j) - softmax.largest);
  return softmax;
}

struct Own {
  Guarded losses, dlogits;
};

// fp32 rounds what is as large as a logit: a few units of its last place, and of the softmax's sum.
double tolerance(const Problem& problem, double value) {
  return 1e-5 * std::max(1.0, std::fabs(value)) + (problem.kind == Logits::large ? 1e4 * 3e-7 : 0.0);
}

void check_loss(const Problem& problem, std::size_t rank, std::size_t row, float found) {
  const Softmax whole = softmax_of(problem, row, 0, problem.vocabulary);
  const double target = problem.logit(row, static_cast<std::size_t>(problem.target(row)));
  const double right = whole.log_sum() - target;
  if (std::fabs(found - right) <= tolerance(problem, right)) return;
  const auto is = [&](double other) { return std::fabs(found - other) <= tolerance(problem, other); };
  const Softmax own = softmax_of(problem, row, problem.first_of(rank), problem.first_of(rank + 1));
  double sums = 0.0;
  for (std::size_t other = 0; other < static_cast<std::size_t>(problem.ranks); ++other)
    sums += softmax_of(problem, row, problem.first_of(other), problem.first_of(other + 1)).sum;
  std::string words;
  if (!std::isfinite(found) && problem.kind == Logits::large)
    words = ": exp of such logits is beyond fp32; in a softmax the largest comes off first";
  else if (!std::isfinite(found) && problem.kind == Logits::masked)
    words = ": where all that a rank has is -infinity, its own largest is, too, and -infinity less -infinity is no number";
  else if (is(own.log_sum() - target) || is(own.log_sum()))
    words = ": its softmax is over this rank's part of the vocabulary alone";
  else if (is(std::log(sums) + own.largest - target))
    words = ": the ranks' sums add up only if all have taken off the same number, the largest of all ranks";
  else if (is(whole.log_sum()))
    words = ": the target's logit is not taken off";
  else if (is(std::log(whole.sum) - target))
    words = ": the largest logit was taken off before exp, and is missing in the end";
  reject("on rank {}, the loss of row {} is {}, not {}{}", rank, row, number(found), number(right), words);
}

void check_gradient(const Problem& problem, std::size_t rank, std::size_t row, std::size_t entry, float found) {
  const Softmax whole = softmax_of(problem, row, 0, problem.vocabulary);
  const bool target = static_cast<int>(entry) == problem.target(row);
  const double weight = std::exp(problem.logit(row, entry) - whole.log_sum()), right = weight - (target ? 1.0 : 0.0);
  if (std::fabs(found - right) <= tolerance(problem, right)) return;
  const auto is = [&](double other) { return std::fabs(found - other) <= tolerance(problem, other); };
  const Softmax own = softmax_of(problem, row, problem.first_of(rank), problem.first_of(rank + 1));
  std::string words;
  if (target && is(weight)) words = ": this is the target, whose gradient is less by 1";
  if (!target && is(weight - 1.0))
    words = fmt::format(": the 1 is taken off there, but the target is entry {}: targets count in the whole vocabulary",
                        problem.target(row));
  if (is(right / static_cast<double>(problem.rows)))
    words = ": that is the gradient of the average of the losses; it is to be that of their sum";
  if (is(std::exp(problem.logit(row, entry) - own.log_sum()) - (target ? 1.0 : 0.0)))
    words = ": its softmax is over this rank's part of the vocabulary alone";
  reject("on rank {}, dlogits of row {}, entry {}, is {}, not {}{}", rank, row, entry, number(found), number(right), words);
}

using CrossEntropy = void(lab::Link&, const VocabularyPart&);

void check_problem(CrossEntropy* cross_entropy, const Problem& problem) {
  const auto n = static_cast<std::size_t>(problem.ranks);
  std::vector<std::vector<float>> logits(n);
  std::vector<Own> own;
  std::vector<int> targets;
  for (std::size_t row = 0; row < problem.rows; ++row) targets.push_back(problem.target(row));
  for (std::size_t rank = 0; rank < n; ++rank) {
    const std::size_t first = problem.first_of(rank), end = problem.first_of(rank + 1);
    for (std::size_t row = 0; row < problem.rows; ++row)
      for (std::size_t j = first; j < end; ++j) logits[rank].push_back(problem.logit(row, j));
    own.push_back({Guarded(std::vector<float>(problem.rows, 77.0f)), Guarded(std::vector<float>(logits[rank].size(), 77.0f))});
  }
  const Traffic traffic = run_ranks(problem.ranks, [&](lab::Link& link) {
    const auto rank = static_cast<std::size_t>(link.rank());
    const std::size_t first = problem.first_of(rank);
    cross_entropy(link, {problem.rows, problem.first_of(rank + 1) - first, first, logits[rank], targets, own[rank].losses.span(),
                         own[rank].dlogits.span()});
  });
  for (std::size_t rank = 0; rank < n; ++rank) {
    own[rank].losses.check(fmt::format("on rank {}, losses", rank));
    own[rank].dlogits.check(fmt::format("on rank {}, dlogits", rank));
    const std::size_t first = problem.first_of(rank), columns = problem.first_of(rank + 1) - first;
    for (std::size_t row = 0; row < problem.rows; ++row) {
      check_loss(problem, rank, row, own[rank].losses[row]);
      for (std::size_t j = 0; j < columns; ++j)
        check_gradient(problem, rank, row, first + j, own[rank].dlogits[row * columns + j]);
    }
  }
  const Count sent = std::accumulate(traffic.elements_sent.begin(), traffic.elements_sent.end(), Count{0});
  const Count most = Count{3} * 2 * (problem.ranks - 1) * static_cast<Count>(problem.rows);
  if (sent > most)
    reject(
        "the ranks send {} numbers in all: three all-reduces of a number a row take {} at most, however large the vocabulary is",
        sent, most);
}

}  // namespace

void grade_cross_entropy(const Library& library, Grading& grading) {
  auto* cross_entropy = library.function<CrossEntropy>("vocabulary_parallel_cross_entropy");
  for (const Problem& problem : std::vector<Problem>{{2, 3, 8, Logits::small},
                                                     {1, 2, 5, Logits::small},
                                                     {3, 4, 11, Logits::small},
                                                     {2, 3, 8, Logits::large},
                                                     {4, 5, 13, Logits::large},
                                                     {3, 4, 12, Logits::masked},
                                                     {8, 2, 24, Logits::masked},
                                                     {8, 3, 5, Logits::small},
                                                     {4, 0, 9, Logits::small}}) {
    grading.begin(problem.words());
    check_problem(cross_entropy, problem);
  }
}

}  // namespace cohort::labs::lab07_tensor_parallel
