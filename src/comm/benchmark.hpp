// Measures all-reduce: the communicator's own and those of the course, by message size. What `cohort comm` prints.
//
// Time: each repeat starts from a barrier and counts for its slowest rank; the median of the repeats is reported. Short messages
// are timed several in a row, since a barrier lets ranks go at slightly different times. Bus bandwidth: 2 (n-1)/n x bytes / time,
// for n ranks. That many bytes must leave each rank in any all-reduce (see algorithms.hpp), so the number compares with the
// bandwidth of the links whatever n is; it is 0 for one rank.
#pragma once

#include <functional>
#include <vector>

#include "base/units.hpp"
#include "comm/algorithms.hpp"
#include "comm/communicator.hpp"
#include "comm/own_all_reduce.hpp"

namespace cohort {

struct AllReduceBenchmark {
  Bytes min_bytes = 4;
  Bytes max_bytes = 64 * kMiB;
  std::vector<AllReduceAlgorithm> algorithms{kAllReduceAlgorithms.begin(), kAllReduceAlgorithms.end()};
  OwnAllReduce own = nullptr;  // what AllReduceAlgorithm::own is, if it is among them
  int repeats = 0;             // 0: as many as fit a fifth of a second, from 3 to 20
};

struct AllReduceTiming {
  Bytes bytes;
  AllReduceAlgorithm algorithm;
  int repeats;
  double seconds;  // of one all-reduce
  double bus_bytes_per_second;
};

/// Throws Error(usage) on sizes that are not whole fp32 elements, out of order or below one element, on no algorithm and on
/// negative repeats.
void check(const AllReduceBenchmark& benchmark);

/// The sizes that are measured: from the smallest in steps of 4, and the largest.
std::vector<Bytes> message_sizes(const AllReduceBenchmark& benchmark);

/// As many as fit a fifth of a second, from 3 to 20, of a repeat that takes `seconds`.
int choose_repeats(double seconds);

/// Times `once` as often as that: the slowest rank counts in each repeat, and of these the median. The same on all ranks.
// Collective over: comm
double median_of_slowest(Communicator& comm, int repeats, const std::function<double()>& once);

/// Runs the benchmark; calls `on_size` on all ranks with the timings of each message size, one per algorithm, as soon as they are
/// there. The sums are checked before anything is timed: a wrong one is an Error(internal), or of `own` an Error(unequal). //
/// Collective over: comm
void run_benchmark(Communicator& comm, const AllReduceBenchmark& benchmark,
                   const std::function<void(const std::vector<AllReduceTiming>&)>& on_size);

}  // namespace cohort
