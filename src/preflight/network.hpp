// What the network between nodes does to messages of MPI, and how far the nodes' clocks are apart.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "comm/communicator.hpp"
#include "preflight/measurements.hpp"

namespace cohort::preflight {

/// Who talks to whom, round by round: all pairs of `n`, or the first `most_rounds` rounds of them. In a round everybody is in one
/// pair at most; each pair comes once. n - 1 rounds, or n if it is odd, hold all pairs (the circle method of round-robin
/// tournaments: one stays, the others move on by a seat).
std::vector<std::vector<std::pair<int, int>>> rounds_of_pairs(int n, int most_rounds);

struct MessageSizes {
  int small_messages = 100;
  int large_messages = 8;
  Bytes large_bytes = 4 * kMiB;
};

/// Latency and speed of messages between two ranks, measured by `a`: only there is the result of use. `a` and `b` are ranks of
/// `comm`; both call it, the others do not. The nodes of the link are for the caller to set.
Link measure_link(Communicator& comm, int a, int b, const MessageSizes& sizes);

struct ClockOffset {
  double offset = 0.0;  // seconds by which the other's wall clock is ahead of this one
  double error = 0.0;   // the offset is right within this: half of the fastest round trip
};

/// From one round trip, in nanoseconds: `sent` and `received` by this clock, `theirs` by the other at some moment in between.
ClockOffset offset_from(std::int64_t sent, std::int64_t theirs, std::int64_t received);

/// The clock of `other`, seen from `base`, by Cristian's algorithm (Cristian 1989): the answer of the fastest round trip was
/// given within it. Both call it; the result is of use on `base`.
ClockOffset measure_clock(Communicator& comm, int base, int other, int round_trips);

}  // namespace cohort::preflight
