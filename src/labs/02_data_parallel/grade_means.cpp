// Means over what several ranks have: right if every token counts the same, wherever it is.
#include <algorithm>
#include <cmath>
#include <cohort/lab02_data_parallel.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "labs/02_data_parallel/data_parallel_graders.hpp"
#include "labs/02_data_parallel/simulated_replicas.hpp"
#include "labs/grading/guarded.hpp"

namespace cohort::labs::lab02_data_parallel {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// What each rank has of one number: its mean, and the tokens that it is a mean of.
struct Parts {
  std::vector<double> means;
  std::vector<std::size_t> tokens;

  std::size_t ranks() const { return means.size(); }
  double all_tokens() const { return static_cast<double>(std::accumulate(tokens.begin(), tokens.end(), std::size_t{0})); }
  double sum(bool weighted) const {
    double sum = 0.0;
    for (std::size_t r = 0; r < ranks(); ++r) {
      if (tokens[r] > 0) sum += means[r] * (weighted ? static_cast<double>(tokens[r]) : 1.0);
    }
    return sum;
  }
  double mean() const { return sum(true) / all_tokens(); }
  /// A number that is made of these parts in fp32: each is rounded when it is weighed, and the sum is.
  double tolerance() const {
    double size = 0.0;
    for (std::size_t r = 0; r < ranks(); ++r) {
      if (tokens[r] > 0) size += std::fabs(means[r]) * static_cast<double>(tokens[r]);
    }
    return 8.0 * std::numeric_limits<float>::epsilon() / 2.0 * size / all_tokens();
  }
};

// "" if `found` on this rank is the mean over all tokens, else what it is instead.
std::string wrong_mean(double found, std::size_t rank, const Parts& parts) {
  const auto is = [&](double value) { return std::fabs(found - value) <= parts.tolerance(); };
  if (is(parts.mean())) return "";
  const auto ranks = static_cast<double>(parts.ranks()), own_tokens = static_cast<double>(parts.tokens[rank]);
  std::string what;
  if (std::isnan(found)) {
    what = "a mean of no tokens is not a number, and 0 times it neither: it must not come into the sum";
  } else if (is(parts.means[rank])) {
    what = "that is what the rank had before";
  } else if (is(parts.sum(false) / ranks)) {
    what = "that is the mean of the ranks' means; but they are means of different numbers of tokens";
  } else if (is(parts.sum(false))) {
    what = "that is the sum of the ranks' means";
  } else if (is(parts.sum(true))) {
    what = "that is the sum over all tokens, not yet divided by their number";
  } else if (is(parts.mean() / ranks)) {
    what = "that is the mean divided by the number of ranks once more";
  } else if (is(parts.sum(true) / ranks)) {
    what = "that is the sum over all tokens divided by the number of ranks";
  } else if (own_tokens > 0.0 && is(parts.sum(true) / own_tokens)) {
    what = "that is the sum over all tokens divided by the tokens of this rank";
  } else if (is(parts.sum(false) * own_tokens / parts.all_tokens())) {
    what = "that is the sum of the ranks' means, and only then weighed by the tokens of this rank";
  } else {
    what = fmt::format("{:.4g} times as much", found / parts.mean());
  }
  return fmt::format("is {:.7g}; the mean over the tokens of all is {:.7g}: {}", found, parts.mean(), what);
}

// The tokens of `ranks` ranks: of the first kind equal, of the second not, of the third one rank has none.
std::vector<std::size_t> tokens_of(int ranks, int kind) {
  std::vector<std::size_t> tokens;
  for (int r = 0; r < ranks; ++r) tokens.push_back(kind == 0 ? 16 : static_cast<std::size_t>(5 + 7 * r));
  if (kind == 2 && ranks > 1) tokens[static_cast<std::size_t>(ranks - 1)] = 0;
  return tokens;
}

std::string case_of(const std::vector<std::size_t>& tokens) {
  std::vector<std::string> words;
  for (const std::size_t one : tokens) words.push_back(std::to_string(one));
  return fmt::format("{} of {} tokens", counted(static_cast<std::int64_t>(tokens.size()), "rank"), join(words));
}

// Of a rank without tokens, none.
float gradient_of(std::size_t rank, std::size_t which, std::size_t element, std::size_t tokens) {
  if (tokens == 0) return kNaN;
  return std::sin(1.0f + static_cast<float>(element % 13) + 3.7f * static_cast<float>(rank) + 0.9f * static_cast<float>(which)) *
         static_cast<float>(1 + rank);
}

std::vector<float> gradients_of(std::size_t rank, std::size_t which, std::size_t elements, std::size_t tokens) {
  std::vector<float> gradient(elements);
  for (std::size_t i = 0; i < elements; ++i) gradient[i] = gradient_of(rank, which, i, tokens);
  return gradient;
}

Parts parts_of(const std::vector<std::size_t>& tokens, std::size_t which, std::size_t element) {
  Parts parts{{}, tokens};
  for (std::size_t r = 0; r < tokens.size(); ++r) parts.means.push_back(gradient_of(r, which, element, tokens[r]));
  return parts;
}

using AverageGradients = void(std::span<float>, std::size_t, std::span<float>, std::size_t);

void check_average(AverageGradients* average, const std::vector<std::size_t>& tokens, std::size_t elements) {
  std::vector<Guarded> replicas;
  for (std::size_t r = 0; r < 2; ++r) replicas.emplace_back(gradients_of(r, 0, elements, tokens[r]));
  average(replicas[0].span(), tokens[0], replicas[1].span(), tokens[1]);
  for (std::size_t r = 0; r < 2; ++r) {
    const char* name = r == 0 ? "first" : "second";
    replicas[r].check(name);
    for (std::size_t i = 0; i < elements; ++i) {
      const Parts parts = parts_of(tokens, 0, i);
      const std::string wrong = wrong_mean(replicas[r][i], r, parts);
      if (wrong.empty()) continue;
      // The second replica's mean, made with the first's gradient that has been replaced already.
      Parts replaced = parts;
      replaced.means[0] = parts.mean();
      const bool late = r == 1 && std::fabs(replicas[1][i] - replaced.mean()) <= parts.tolerance();
      reject("{}[{}] {}", name, i, late ? "is made with first[i] after that was replaced" : wrong);
    }
  }
}

using MeanOverRanks = double(lab::Replicas&, double, std::size_t);
using NaiveDataParallel = void(lab::Replicas&, std::span<const std::span<float>>, std::size_t);

void check_naive(NaiveDataParallel* naive, const std::vector<std::size_t>& tokens, const std::vector<std::size_t>& sizes) {
  std::vector<std::vector<Guarded>> gradients(tokens.size());
  for (std::size_t r = 0; r < tokens.size(); ++r) {
    for (std::size_t which = 0; which < sizes.size(); ++which)
      gradients[r].emplace_back(gradients_of(r, which, sizes[which], tokens[r]));
  }
  run_replicas(static_cast<int>(tokens.size()), [&](lab::Replicas& replicas) {
    const auto rank = static_cast<std::size_t>(replicas.rank());
    std::vector<std::span<float>> spans;
    for (Guarded& gradient : gradients[rank]) spans.push_back(gradient.span());
    naive(replicas, spans, tokens[rank]);
  });
  for (std::size_t r = 0; r < tokens.size(); ++r) {
    for (std::size_t which = 0; which < sizes.size(); ++which) {
      gradients[r][which].check(fmt::format("on rank {}, gradient {}", r, which));
      for (std::size_t i = 0; i < sizes[which]; ++i) {
        const Parts parts = parts_of(tokens, which, i);
        const std::string wrong = wrong_mean(gradients[r][which][i], r, parts);
        if (!wrong.empty()) reject("on rank {}, gradient {}, element {} {}", r, which, i, wrong);
      }
    }
  }
}

}  // namespace

void grade_average(const Library& library, Grading& grading) {
  auto* average = library.function<AverageGradients>("average_gradients");
  for (const std::vector<std::size_t>& tokens : {std::vector<std::size_t>{8, 8}, {12, 4}, {1, 3}, {0, 5}, {5, 0}}) {
    for (const std::size_t elements : {std::size_t{4}, std::size_t{1}, std::size_t{0}, std::size_t{100}}) {
      grading.begin(
          fmt::format("{} and {} tokens, {}", tokens[0], tokens[1], counted(static_cast<std::int64_t>(elements), "element")));
      check_average(average, tokens, elements);
    }
  }
}

void grade_mean(const Library& library, Grading& grading) {
  auto* mean_over_ranks = library.function<MeanOverRanks>("mean_over_ranks");
  for (const int ranks : {2, 1, 4, 3, 8}) {
    for (int kind = 0; kind < 3; ++kind) {
      const std::vector<std::size_t> tokens = tokens_of(ranks, kind);
      grading.begin(case_of(tokens));
      Parts parts{{}, tokens};
      for (std::size_t r = 0; r < tokens.size(); ++r)
        parts.means.push_back(tokens[r] == 0 ? kNaN : 2.0 + 0.37 * static_cast<double>(r));
      std::vector<double> found(tokens.size());
      run_replicas(ranks, [&](lab::Replicas& replicas) {
        const auto rank = static_cast<std::size_t>(replicas.rank());
        found[rank] = mean_over_ranks(replicas, parts.means[rank], tokens[rank]);
      });
      for (std::size_t r = 0; r < tokens.size(); ++r) {
        const std::string wrong = wrong_mean(found[r], r, parts);
        if (!wrong.empty()) reject("on rank {}, the mean {}", r, wrong);
      }
    }
  }
}

void grade_naive(const Library& library, Grading& grading) {
  auto* naive = library.function<NaiveDataParallel>("naive_data_parallel");
  const std::vector<std::vector<std::size_t>> models{{6, 3}, {1}, {}, {5, 0, 33, 2, 100}};
  for (const int ranks : {2, 1, 4, 3, 8}) {
    for (int kind = 0; kind < 3; ++kind) {
      for (const std::vector<std::size_t>& sizes : models) {
        const std::vector<std::size_t> tokens = tokens_of(ranks, kind);
        grading.begin(fmt::format("{}, {}", case_of(tokens), counted(static_cast<std::int64_t>(sizes.size()), "gradient")));
        check_naive(naive, tokens, sizes);
      }
    }
  }
}

}  // namespace cohort::labs::lab02_data_parallel
