#include "preflight/network.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

#include "observe/clock.hpp"

namespace cohort::preflight {
namespace {

std::int64_t wall_nanoseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// Seconds of one message and its answer of one byte.
double time_round_trip(Communicator& comm, int a, int b, std::vector<std::uint8_t>& message) {
  const auto bytes = static_cast<Count>(message.size());
  std::uint8_t answer = 0;
  const double begin = steady_seconds();
  if (comm.rank() == a) {
    comm.send(message.data(), bytes, DType::u8, b);
    comm.recv(&answer, 1, DType::u8, b);
  } else {
    comm.recv(message.data(), bytes, DType::u8, a);
    comm.send(&answer, 1, DType::u8, a);
  }
  return steady_seconds() - begin;
}

}  // namespace

std::vector<std::vector<std::pair<int, int>>> rounds_of_pairs(int n, int most_rounds) {
  const int seats = n + n % 2;  // of an odd number, who is paired with the empty seat has a pause
  std::vector<std::vector<std::pair<int, int>>> rounds;
  for (int round = 0; round < std::min(seats - 1, most_rounds); ++round) {
    const auto at = [&](int seat) { return seat == 0 ? 0 : 1 + (seat - 1 + round) % (seats - 1); };
    std::vector<std::pair<int, int>> pairs;
    for (int seat = 0; seat < seats / 2; ++seat) {
      const auto [low, high] = std::minmax({at(seat), at(seats - 1 - seat)});
      if (high < n) pairs.emplace_back(low, high);
    }
    rounds.push_back(std::move(pairs));
  }
  return rounds;
}

Link measure_link(Communicator& comm, int a, int b, const MessageSizes& sizes) {
  Link link;
  std::vector<std::uint8_t> message(1);
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < sizes.small_messages; ++i) fastest = std::min(fastest, time_round_trip(comm, a, b, message));
  link.latency = 0.5 * fastest;
  message.resize(static_cast<std::size_t>(sizes.large_bytes));
  fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= sizes.large_messages; ++i) {  // the first one makes connections and touches memory
    const double seconds = time_round_trip(comm, a, b, message);
    if (i > 0) fastest = std::min(fastest, seconds);
  }
  // Without the answer's way back, which on a busy node may seem to have taken longer than all of it.
  link.speed = static_cast<double>(sizes.large_bytes) / (fastest - std::min(link.latency, 0.5 * fastest));
  return link;
}

ClockOffset offset_from(std::int64_t sent, std::int64_t theirs, std::int64_t received) {
  const double error = 0.5e-9 * static_cast<double>(received - sent);
  return {1e-9 * static_cast<double>(theirs - sent) - error, error};
}

ClockOffset measure_clock(Communicator& comm, int base, int other, int round_trips) {
  ClockOffset best;
  best.error = std::numeric_limits<double>::infinity();
  for (int i = 0; i < round_trips; ++i) {
    std::int64_t theirs = 0;
    if (comm.rank() == other) {
      comm.recv(&theirs, 1, DType::i64, base);
      theirs = wall_nanoseconds();
      comm.send(&theirs, 1, DType::i64, base);
      continue;
    }
    const std::int64_t sent = wall_nanoseconds();
    comm.send(&theirs, 1, DType::i64, other);
    comm.recv(&theirs, 1, DType::i64, other);
    const std::int64_t received = wall_nanoseconds();
    const ClockOffset found = offset_from(sent, theirs, received);
    if (found.error < best.error) best = found;
  }
  return best;
}

}  // namespace cohort::preflight
