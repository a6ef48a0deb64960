#include "comm/clock_offset.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace cohort {
namespace {

// Rank 0 asks `rank`, and gets the offset of its clock.
ClockOffset ask(Communicator& comm, int rank, Clock clock, int round_trips) {
  ClockOffset best{0.0, std::numeric_limits<double>::infinity()};
  double answer = 0.0;
  for (int i = 0; i < round_trips; ++i) {
    const double sent = clock();
    comm.send(&answer, 1, DType::f64, rank);
    comm.recv(&answer, 1, DType::f64, rank);
    const double back = clock();
    if (const double error = 0.5 * (back - sent); error < best.error) best = {answer - 0.5 * (sent + back), error};
  }
  return best;
}

}  // namespace

ClockOffset measure_clock_offset(Communicator& comm, Clock clock, int round_trips) {
  if (comm.rank() != 0) {
    double question = 0.0;
    for (int i = 0; i < round_trips; ++i) {
      comm.recv(&question, 1, DType::f64, 0);
      const double now = clock();
      comm.send(&now, 1, DType::f64, 0);
    }
    std::array<double, 2> told{};
    comm.recv(told.data(), 2, DType::f64, 0);
    return {told[0], told[1]};
  }
  for (int rank = 1; rank < comm.size(); ++rank) {
    const ClockOffset found = ask(comm, rank, clock, round_trips);
    const std::array<double, 2> told{found.seconds, found.error};
    comm.send(told.data(), 2, DType::f64, rank);
  }
  return {};
}

ClockOffset between(const ClockOffset& first, const ClockOffset& second) {
  const double drift = std::abs(second.seconds - first.seconds);
  return {0.5 * (first.seconds + second.seconds), std::max(first.error, second.error) + 0.5 * drift};
}

}  // namespace cohort
