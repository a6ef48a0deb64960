// 10.1 to 10.3: hangs, NaNs and slow ranks that were made, so that the cause is known.
#include "labs/10_operations/diagnosis_graders.hpp"

#include <algorithm>
#include <cmath>
#include <cohort/lab10_operations.hpp>
#include <limits>
#include <span>
#include <vector>

#include "base/text.hpp"

namespace cohort::labs::lab10_operations {
namespace {

// 10.1
const char* name_of_kind(HangKind kind) {
  switch (kind) {
    case no_hang:
      return "no_hang";
    case missing:
      return "missing";
    case mismatch:
      return "mismatch";
    case transport:
      return "transport";
  }
  return "no kind";
}

std::string in_words(const std::vector<int>& ranks) {
  std::vector<std::string> words;
  for (const int rank : ranks) words.push_back(std::to_string(rank));
  return words.empty() ? "none" : join(words);
}

struct MadeHang {
  const char* story;
  std::vector<LastCollective> ranks;
  Hang right;
};

const std::vector<MadeHang>& made_hangs() {
  const LastCollective inside{7, "all_reduce", 100, false}, done{7, "all_reduce", 100, true}, next{8, "all_gather", 50, false};
  static const std::vector<MadeHang> kHangs{
      {"rank 2 never comes to all_reduce 8",
       {{8, "all_reduce", 9, false}, {8, "all_reduce", 9, false}, {7, "all_reduce", 9, true}},
       {missing, 8, {2}}},
      {"all ranks work between two collectives", {done, done, done}, {no_hang, 0, {}}},
      {"nothing was called yet", {{0, "", 0, false}, {0, "", 0, false}}, {no_hang, 0, {}}},
      {"the last ones come out of an all_reduce", {inside, done, inside}, {no_hang, 0, {}}},
      {"all ranks are inside the same all_reduce", {inside, inside, inside, inside}, {transport, 7, {}}},
      {"rank 1 calls a broadcast where the others sum", {inside, {7, "broadcast", 100, false}, inside}, {mismatch, 7, {1}}},
      {"rank 0 sums another number of elements", {{7, "all_reduce", 101, false}, inside, inside, inside}, {mismatch, 7, {0}}},
      {"two ranks, two collectives", {inside, {7, "barrier", 0, false}}, {mismatch, 7, {0, 1}}},
      {"ranks 1 and 3 are missing", {next, done, next, done}, {missing, 8, {1, 3}}},
      {"rank 3 is missing, and ranks 1 and 2 wait for it behind rank 0",
       {{9, "broadcast", 1, false}, next, next, done},
       {missing, 8, {3}}},
      {"rank 1 was lost before its first collective", {{1, "broadcast", 4, false}, {0, "", 0, false}}, {missing, 1, {1}}},
      {"most ranks are missing", {next, done, done, done}, {missing, 8, {1, 2, 3}}},
      {"ranks 0 and 1 differ, and rank 2 is behind", {next, {8, "all_reduce", 50, false}, done}, {mismatch, 8, {0, 1}}},
      {"one rank is alone, inside", {inside}, {transport, 7, {}}},
      {"one rank is alone, between two", {done}, {no_hang, 0, {}}},
      {"rank 0 is far ahead, and rank 2 is stuck inside what the others have left",
       {{12, "broadcast", 1, false}, {12, "broadcast", 1, false}, {11, "broadcast", 1, false}},
       {missing, 12, {2}}},
  };
  return kHangs;
}

}  // namespace

void grade_stuck(const Library& library, Grading& grading) {
  auto* find = library.function<void(std::span<const LastCollective>, Hang&)>("find_stuck_ranks");
  for (const MadeHang& made : made_hangs()) {
    grading.begin(made.story);
    Hang found{no_hang, -1, {-1}};
    find(made.ranks, found);
    const Hang& right = made.right;
    if (found.kind != right.kind) reject("it is called {}, not {}", name_of_kind(found.kind), name_of_kind(right.kind));
    if (found.ranks != right.ranks) reject("ranks: {}; those to look at are {}", in_words(found.ranks), in_words(right.ranks));
    if (found.number != right.number) reject("the collective is number {}, not {}", found.number, right.number);
  }
}

// 10.2
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

struct MadeNonfinite {
  const char* story;
  struct Tensor {
    long long step;
    int order, rank;
    std::vector<float> values;
  };
  std::vector<Tensor> seen;
  std::size_t tensor, element;  // tensor = seen.size(): all are finite
};

const std::vector<MadeNonfinite>& made_nonfinites() {
  static const std::vector<MadeNonfinite> kMade{
      {"all are finite", {{1, 0, 0, {1, 2}}, {1, 0, 1, {3, 3.4e38f}}}, 2, 0},
      {"one NaN", {{4, 0, 0, {1, 2}}, {4, 1, 0, {0, 1, kNan, 3}}, {4, 2, 0, {1}}}, 1, 2},
      {"an infinity becomes NaN in what follows", {{4, 0, 0, {1, kInfinity}}, {4, 1, 0, {kNan, kNan}}}, 0, 1},
      {"a negative infinity", {{4, 0, 0, {1, 2, -kInfinity}}}, 0, 2},
      {"rank 3 had it first; the all-reduce has carried it to all",
       {{5, 9, 0, {kNan}}, {5, 9, 1, {kNan}}, {5, 2, 3, {1, kNan}}, {5, 9, 3, {kNan}}},
       2,
       1},
      {"a later step stands first in the list", {{9, 0, 0, {kNan}}, {8, 5, 2, {1, 1, kNan}}, {8, 6, 0, {kNan}}}, 1, 2},
      {"two ranks in the same place", {{2, 3, 5, {kNan}}, {2, 3, 1, {0, kInfinity}}, {2, 3, 4, {kNan}}}, 1, 1},
      {"only the last element of the last tensor", {{1, 0, 0, {0, 0}}, {1, 1, 0, {}}, {1, 2, 0, {0, 0, kNan}}}, 2, 2},
      {"nothing was looked at", {}, 0, 0},
      {"several in one tensor", {{3, 0, 0, {1, kNan, kInfinity}}}, 0, 1}};
  return kMade;
}

}  // namespace

void grade_nonfinite(const Library& library, Grading& grading) {
  auto* find = library.function<bool(std::span<const SeenTensor>, FirstNonfinite&)>("first_nonfinite");
  for (const MadeNonfinite& made : made_nonfinites()) {
    grading.begin(made.story);
    std::vector<SeenTensor> seen;
    for (const auto& tensor : made.seen) seen.push_back({tensor.step, tensor.order, tensor.rank, tensor.values});
    constexpr std::size_t kUntouched = 77;
    FirstNonfinite first{kUntouched, kUntouched};
    const bool found = find(seen, first);
    const bool there = made.tensor < made.seen.size();
    if (found && !there) reject("it finds tensor {}, element {}, but all values are finite", first.tensor, first.element);
    if (!found && there)
      reject("it finds nothing, but element {} of tensor {} is {}", made.element, made.tensor,
             made.seen[made.tensor].values[made.element]);
    if (!found && (first.tensor != kUntouched || first.element != kUntouched))
      reject("it returns false, but has written to first");
    if (!found) continue;
    const auto& right = made.seen[made.tensor];
    if (first.tensor >= seen.size()) reject("it finds tensor {} of {}", first.tensor, seen.size());
    if (first.tensor != made.tensor)
      reject("it finds step {}, order {}, rank {}: it was earlier in step {}, order {}, rank {}", seen[first.tensor].step,
             seen[first.tensor].order, seen[first.tensor].rank, right.step, right.order, right.rank);
    if (first.element != made.element) reject("it finds element {} of the right tensor, not {}", first.element, made.element);
  }
}

// 10.3
namespace {

// Medians by counting: of n values the one that has (n - 1) / 2 before it, and n / 2.
double middle(std::vector<double> values) {
  const auto at = [&](std::size_t place) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(place), values.end());
    return values[place];
  };
  const double low = at((values.size() - 1) / 2), high = at(values.size() / 2);
  return 0.5 * (low + high);
}

Straggler expected_straggler(const std::vector<std::vector<double>>& ranks) {
  std::vector<double> medians, deviations;
  for (const auto& seconds : ranks) medians.push_back(middle(seconds));
  const double usual = middle(medians);
  for (const double own : medians) deviations.push_back(std::fabs(own - usual));
  const double limit = std::max(5.0 * 1.4826 * middle(deviations), 0.1 * usual);
  std::size_t slowest = 0;
  for (std::size_t rank = 0; rank < medians.size(); ++rank) slowest = medians[rank] > medians[slowest] ? rank : slowest;
  if (medians[slowest] - usual > limit) return {static_cast<int>(slowest), medians[slowest], usual};
  return {-1, 0.0, usual};
}

struct MadeTimes {
  const char* story;
  std::vector<std::vector<double>> ranks;  // seconds by rank and step
};

const std::vector<MadeTimes>& made_times() {
  static const std::vector<MadeTimes> kMade{
      {"rank 2 is slow in each step", {{1, 1.25, 1}, {1, 1, 1.25}, {2, 2, 2.25}, {1.25, 1, 1}, {1, 1, 1}}},
      {"all ranks are alike", {{1, 1}, {1, 1}, {1, 1}, {1, 1}}},
      {"rank 1 has one long step, a save", {{1, 1, 1, 1, 1}, {1, 1, 9, 1, 1}, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}}},
      {"ranks differ a little", {{1.0}, {1.03125}, {0.96875}, {1.0625}, {0.9375}}},
      {"rank 7 of 8 takes twice as long", {{1}, {1.0625}, {1}, {1.0625}, {1}, {1.0625}, {1}, {2}}},
      {"all but one are exactly alike, and that one is 5 % slower", {{1}, {1}, {1}, {1.05}, {1}}},
      {"all but one are exactly alike, and that one is 25 % slower", {{1}, {1}, {1}, {1.25}, {1}}},
      {"two are equally slow", {{1, 1}, {3, 3}, {1, 1}, {3, 3}, {1, 1}, {1, 1}, {1, 1}}},
      {"rank 0 is fast, which harms nobody", {{0.25}, {1}, {1}, {1.03125}, {1}}},
      {"ranks differ much, and the slowest not more than others", {{1}, {2}, {3}, {4}, {5}, {6}}},
      {"one rank", {{1, 2, 3}}},
      {"two ranks", {{1, 1}, {2, 2}}},
      {"an even number of steps", {{1, 3, 1, 3}, {2, 2, 2, 2}, {1, 3, 3, 1}, {8, 2, 8, 2}, {2, 2, 2, 2}}},
      {"rank 3 is slow after a while", {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}, {1, 1, 2, 2, 2}, {1, 1, 1, 1, 1}}}};
  return kMade;
}

}  // namespace

void grade_straggler(const Library& library, Grading& grading) {
  auto* find = library.function<Straggler(std::span<const double>, std::size_t)>("find_straggler");
  for (const MadeTimes& made : made_times()) {
    grading.begin(made.story);
    std::vector<double> seconds;
    for (const auto& rank : made.ranks) seconds.insert(seconds.end(), rank.begin(), rank.end());
    const Straggler right = expected_straggler(made.ranks), found = find(seconds, made.ranks[0].size());
    if (found.rank != right.rank)
      reject("{}, but {}", found.rank < 0 ? std::string("no rank is found") : fmt::format("rank {} is found", found.rank),
             right.rank < 0 ? "none is above the ranks' median by 5 x 1.4826 MAD and by a tenth"
                            : fmt::format("rank {} takes {:g} s in the median of its steps, and the ranks' median is {:g} s",
                                          right.rank, right.own, right.usual));
    if (!(std::fabs(found.usual - right.usual) <= 1e-9 * right.usual))  // of rounding; not so for NaN
      reject("usual is {:.6g} s, but the median over the ranks of their medians is {:.6g} s", found.usual, right.usual);
    if (!(std::fabs(found.own - right.own) <= 1e-9 * right.usual)) reject("own is {:.6g} s, not {:.6g} s", found.own, right.own);
  }
}

}  // namespace cohort::labs::lab10_operations
