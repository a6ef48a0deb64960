// A distributed sampler is right if all ranks cut the same shuffled order, position by position.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/text.hpp"
#include "labs/02_data_parallel/data_parallel_graders.hpp"

namespace cohort::labs::lab02_data_parallel {
namespace {

using SamplesOfRank = void(std::size_t, std::uint64_t, std::uint64_t, int, int, std::span<std::size_t>);
using Samples = std::vector<std::size_t>;

constexpr std::size_t kUntouched = ~std::size_t{0};
constexpr std::size_t kBeside = 8;  // elements before and behind `mine` in which nothing may be written

struct Sampling {
  SamplesOfRank* samples_of_rank;
  std::size_t samples;
  std::uint64_t seed, epoch;

  Samples of_rank(int rank, int ranks) const {
    const std::size_t each = (samples + static_cast<std::size_t>(ranks) - 1) / static_cast<std::size_t>(ranks);
    Samples memory(each + 2 * kBeside, kUntouched);
    samples_of_rank(samples, seed, epoch, rank, ranks, std::span(memory).subspan(kBeside, each));
    for (std::size_t i = 0; i < kBeside; ++i) {
      if (memory[i] != kUntouched || memory[kBeside + each + i] != kUntouched)
        reject("rank {} writes beside `mine`, which has {}", rank, counted(static_cast<std::int64_t>(each), "element"));
    }
    const Samples mine(memory.begin() + kBeside, memory.begin() + static_cast<std::ptrdiff_t>(kBeside + each));
    for (std::size_t i = 0; i < each; ++i) {
      if (mine[i] == kUntouched)
        reject(
            "rank {} of {} leaves mine[{}] as it was: all ranks get {} samples, or the last ones wait for each other in the "
            "all-reduce",
            rank, ranks, i, each);
      if (mine[i] >= samples) reject("rank {} of {}: mine[{}] is {}, and there are {} samples", rank, ranks, i, mine[i], samples);
    }
    return mine;
  }

  /// What one rank alone would train on, in order.
  Samples order() const { return of_rank(0, 1); }
};

void check_permutation(const Samples& order) {
  std::vector<int> times(order.size());
  for (const std::size_t sample : order) ++times[sample];
  for (std::size_t sample = 0; sample < times.size(); ++sample) {
    if (times[sample] == 0)
      reject("on one rank, sample {} does not come in the epoch at all, and another comes twice: an epoch has each sample once",
             sample);
  }
}

// Samples of all ranks, in the order of their steps, beside the order of one rank.
void check_ranks(const Sampling& sampling, const Samples& order, int ranks) {
  std::vector<Samples> mine;
  for (int rank = 0; rank < ranks; ++rank) mine.push_back(sampling.of_rank(rank, ranks));
  const std::size_t each = mine.front().size();
  std::vector<std::vector<int>> owners(order.size());
  for (int rank = 0; rank < ranks; ++rank) {
    for (const std::size_t sample : mine[static_cast<std::size_t>(rank)]) owners[sample].push_back(rank);
  }
  for (std::size_t sample = 0; sample < owners.size(); ++sample) {
    if (owners[sample].empty())
      reject("sample {} belongs to no rank: do all ranks cut the same order? It depends on seed and epoch alone, not on the rank",
             sample);
  }
  for (std::size_t i = 0; i < each; ++i) {
    for (int rank = 0; rank < ranks; ++rank) {
      const std::size_t position = i * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(rank);
      const std::size_t found = mine[static_cast<std::size_t>(rank)][i], wanted = order[position % order.size()];
      if (found == wanted) continue;
      if (position >= order.size())
        reject(
            "rank {}: mine[{}] is sample {}: at position {}, beyond the last, the order goes on with its own beginning, sample "
            "{}",
            rank, i, found, position, wanted);
      const bool block = found == order[(static_cast<std::size_t>(rank) * each + i) % order.size()];
      reject("rank {}: mine[{}] is sample {}, position {} of the order has sample {}{}", rank, i, found, position, wanted,
             block ? ": each rank takes a block of its own, so that a step's batch is another one with other ranks" : "");
    }
  }
}

// Each sample should come first, or last, as often as any other: of 6,400 shuffles of 8 samples in 800, with a standard deviation
// of 26. 160 is six of them: a right shuffle fails once in many millions of gradings.
void check_fairness(SamplesOfRank* samples_of_rank) {
  constexpr std::size_t kSamples = 8, kEpochs = 6400;
  constexpr int kFair = kEpochs / kSamples, kFar = 160;
  std::vector<std::vector<int>> times(kSamples, std::vector<int>(kSamples));
  for (std::size_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Samples order = Sampling{samples_of_rank, kSamples, 7, epoch}.order();
    for (std::size_t position = 0; position < kSamples; ++position) ++times[order[position]][position];
  }
  for (std::size_t sample = 0; sample < kSamples; ++sample) {
    for (std::size_t position = 0; position < kSamples; ++position) {
      if (std::abs(times[sample][position] - kFair) > kFar)
        reject("of {} epochs, sample {} is at position {} in {}, and should be in about {}: that is no fair shuffle", kEpochs,
               sample, position, times[sample][position], kFair);
    }
  }
}

}  // namespace

void grade_samples(const Library& library, Grading& grading) {
  auto* samples_of_rank = library.function<SamplesOfRank>("samples_of_rank");
  for (const std::size_t samples : {std::size_t{64}, std::size_t{10}, std::size_t{1}, std::size_t{2}, std::size_t{97}}) {
    const Sampling sampling{samples_of_rank, samples, 1234, 3};
    grading.begin(counted(static_cast<std::int64_t>(samples), "sample"));
    const Samples order = sampling.order();
    check_permutation(order);
    if (samples >= 10 && std::is_sorted(order.begin(), order.end())) reject("the samples are not shuffled");
    if (sampling.order() != order)
      reject("asked again for seed 1234 and epoch 3, it gives another order: all ranks must find the same");
    if (samples >= 10 && Sampling{samples_of_rank, samples, 1234, 4}.order() == order)
      reject("epochs 3 and 4 have the same order: with DistributedSampler, that is a set_epoch() that was forgotten");
    if (samples >= 10 && Sampling{samples_of_rank, samples, 1235, 3}.order() == order)
      reject("seeds 1234 and 1235 give the same order");
    for (const int ranks : {2, 4, 3, 8}) {
      grading.begin(fmt::format("{} and {}", counted(static_cast<std::int64_t>(samples), "sample"), counted(ranks, "rank")));
      check_ranks(sampling, order, ranks);
    }
  }
  grading.begin("many epochs of 8 samples");
  check_fairness(samples_of_rank);
}

}  // namespace cohort::labs::lab02_data_parallel
