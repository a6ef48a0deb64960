// What is asked of a training from outside while it runs: to stop, by a signal or by the file RUN/stop, or to save, by the file
// RUN/save. Each rank says what it has been asked for; the trainer adds that up over ranks with numbers that it exchanges at each
// step anyway, so all ranks act at the same step.
//
// Files are looked for only by rank 0, once a second at most. On NFS it can take as long as the client caches a folder's entries
// (acdirmax, a minute by default) until it sees a new one.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>

#include "comm/communicator.hpp"
#include "observe/clock.hpp"

namespace cohort {

enum class RunRequest : std::uint8_t { stop_by_signal, stop_by_file, save };
inline constexpr std::size_t kRunRequests = 3;

class Requests {
 public:
  Requests(std::filesystem::path run_folder, int rank, Clock clock = steady_seconds);

  /// 1 for each RunRequest that this rank has, in the order of the enum. RUN/save counts once, until save_done().
  std::array<std::int64_t, kRunRequests> poll();
  /// What RUN/save asks for is on disk: removes the file, if it is there, seen or not. False if that cannot be done; then it
  /// stays, and no longer counts.
  bool save_done();

 private:
  std::filesystem::path run_folder_;
  bool looks_;  // rank 0
  Clock clock_;
  double looked_at_;
  bool stop_file_ = false;
  bool save_file_ = false;
  bool saving_ = false;
};

/// Throws SharedError(stopped) if RUN/stop is there: whoever made it does not want the run to continue, and a chain of jobs must
/// not start what a user stopped. // Collective over: world
void refuse_if_stopped(Communicator& world, const std::filesystem::path& run_folder);

}  // namespace cohort
