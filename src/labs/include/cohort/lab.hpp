// What the exercises are written with. It needs the standard library alone, so that an exercise compiles in a second.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>

namespace cohort::lab {

/// What an exercise throws that nobody has written yet.
struct NotWritten : std::logic_error {
  NotWritten() : std::logic_error("not written yet") {}
};

/// Stands in the exercises where your code belongs. Take it out when you begin.
[[noreturn]] inline void not_written() { throw NotWritten(); }

/// One rank's connection to the others. A message goes from one rank to one other; the receiver must know from whom, and how long
/// it is. Messages are not buffered: send() waits until the other rank receives, and receive() until the other rank sends, as MPI
/// does with long messages. If all ranks wait for each other, the job hangs.
class Link {
 public:
  virtual ~Link() = default;
  /// This rank, from 0 to ranks() - 1.
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual void send(int to, std::span<const float> data) = 0;
  virtual void receive(int from, std::span<float> data) = 0;
  /// Sends and receives at the same time, as MPI_Sendrecv does. The two spans must not overlap.
  virtual void exchange(int to, std::span<const float> sent, int from, std::span<float> received) = 0;
};

}  // namespace cohort::lab
