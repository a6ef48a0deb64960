// The pair of collectives that sequence parallelism makes of an all-reduce.
#include <cohort/lab07_tensor_parallel.hpp>
#include <vector>

#include "base/text.hpp"
#include "labs/07_tensor_parallel/tensor_parallel_grades.hpp"
#include "labs/grading/contributions.hpp"
#include "labs/grading/guarded.hpp"
#include "labs/grading/ranks.hpp"

namespace cohort::labs::lab07_tensor_parallel {
namespace {

using Collective = void(lab::Link&, std::span<const float>, std::span<float>);
using Values = std::function<float(int rank, std::size_t element)>;

struct Outcome {
  std::vector<Guarded> written;  // by rank
  Traffic traffic;
};

Outcome run_collective(Collective* collective, int ranks, std::size_t read, std::size_t written, const Values& values,
                       const char* name) {
  Outcome outcome;
  std::vector<std::vector<float>> inputs;
  for (int rank = 0; rank < ranks; ++rank) {
    inputs.emplace_back(read);
    for (std::size_t i = 0; i < read; ++i) inputs.back()[i] = values(rank, i);
    outcome.written.emplace_back(std::vector<float>(written, -1.0f));
  }
  outcome.traffic = run_ranks(ranks, [&](lab::Link& link) {
    const auto rank = static_cast<std::size_t>(link.rank());
    collective(link, inputs[rank], outcome.written[rank].span());
  });
  for (int rank = 0; rank < ranks; ++rank)
    outcome.written[static_cast<std::size_t>(rank)].check(fmt::format("on rank {}, {}", rank, name));
  return outcome;
}

void check_traffic(const Traffic& traffic, int ranks, std::size_t own) {
  for (std::size_t rank = 0; rank < traffic.elements_sent.size(); ++rank) {
    const Count most = (ranks - 1) * static_cast<Count>(own);
    if (traffic.elements_sent[rank] > most)
      reject("rank {} sends {} elements: {} of {} elements are enough, so {}", rank, traffic.elements_sent[rank],
             counted(ranks - 1, "part"), own, most);
  }
  if (traffic.messages_in_turn > ranks - 1)
    reject("{} messages wait for each other, but {} are enough: all ranks send at the same time", traffic.messages_in_turn,
           ranks - 1);
}

struct PartsCase {
  int ranks;
  std::size_t own;
};

const std::vector<PartsCase>& parts_cases() {
  static const std::vector<PartsCase> kCases{{2, 3}, {1, 4}, {4, 2}, {3, 5}, {8, 1}, {4, 0}, {5, 7}};
  return kCases;
}

std::string words_of_parts(const PartsCase& one) {
  return fmt::format("{}, {} each", counted(one.ranks, "rank"), counted(static_cast<Count>(one.own), "element"));
}

}  // namespace

void grade_all_gather(const Library& library, Grading& grading) {
  auto* gather = library.function<Collective>("sequence_all_gather");
  for (const PartsCase& one : parts_cases()) {
    grading.begin(words_of_parts(one));
    const Outcome outcome = run_collective(
        gather, one.ranks, one.own, static_cast<std::size_t>(one.ranks) * one.own,
        [&](int rank, std::size_t i) { return static_cast<float>(static_cast<std::size_t>(rank) * one.own + i); }, "all");
    for (std::size_t rank = 0; rank < outcome.written.size(); ++rank) {
      for (std::size_t i = 0; i < outcome.written[rank].size(); ++i) {
        const float found = outcome.written[rank][i];
        if (found == static_cast<float>(i)) continue;
        reject("on rank {}, element {} of all {}: it is to be element {} of rank {}'s", rank, i,
               found < 0.0f ? "was not written"
                            : fmt::format("is element {} of rank {}'s own", static_cast<std::size_t>(found) % one.own,
                                          static_cast<std::size_t>(found) / one.own),
               i % one.own, i / one.own);
      }
    }
    check_traffic(outcome.traffic, one.ranks, one.own);
  }
}

void grade_reduce_scatter(const Library& library, Grading& grading) {
  auto* scatter = library.function<Collective>("sequence_reduce_scatter");
  for (const PartsCase& one : parts_cases()) {
    grading.begin(words_of_parts(one));
    const std::size_t whole = static_cast<std::size_t>(one.ranks) * one.own;
    const Outcome sums = run_collective(
        scatter, one.ranks, whole, one.own, [](int rank, std::size_t) { return digit_of(rank); }, "own");
    const Outcome places = run_collective(
        scatter, one.ranks, whole, one.own, [](int, std::size_t i) { return static_cast<float>(i); }, "own");
    for (std::size_t rank = 0; rank < sums.written.size(); ++rank) {
      for (std::size_t i = 0; i < one.own; ++i) {
        const float sum = sums.written[rank][i];
        const std::string wrong = sum < 0.0f ? "nothing was written" : wrong_contributions(sum, one.ranks);
        if (!wrong.empty()) reject("on rank {}, element {} is not the sum over all ranks: {}", rank, i, wrong);
        const float element = places.written[rank][i] / static_cast<float>(one.ranks);
        if (element == static_cast<float>(rank * one.own + i)) continue;
        reject("on rank {}, element {} is the sum of element {} of partial: it is to be that of element {}", rank, i, element,
               rank * one.own + i);
      }
    }
    check_traffic(sums.traffic, one.ranks, one.own);
  }
}

}  // namespace cohort::labs::lab07_tensor_parallel
