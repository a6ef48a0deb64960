// How far the clocks of two ranks are apart. The steady clocks of two nodes have nothing in common, and those of one node are one
// clock: nothing is assumed, all is measured.
//
// Rank 0 sends each rank a message that comes back with that rank's time, some times over. The answer was given at some moment
// between the sending, at a, and the return, at b: whatever the two ways took, the rank's clock was ahead by t - (a + b) / 2,
// give or take (b - a) / 2. The quickest of the round trips is taken (as Cristian 1989, "Probabilistic clock synchronization",
// does), and half of it is the error.
#pragma once

#include "comm/communicator.hpp"
#include "observe/clock.hpp"

namespace cohort {

struct ClockOffset {
  double seconds = 0.0;  // this rank's clock less that of rank 0
  double error = 0.0;    // at most so far from the truth; 0 on rank 0
};

/// Of each rank. One rank after the other, about `round_trips` times the latency each. // Collective over: comm, which is the
/// host's
ClockOffset measure_clock_offset(Communicator& comm, Clock clock = steady_seconds, int round_trips = 16);

/// Of a clock that was compared twice, at `first` and `second`, for times between: clocks that run at different rates differ by
/// more in the end. The error covers both.
ClockOffset between(const ClockOffset& first, const ClockOffset& second);

}  // namespace cohort
