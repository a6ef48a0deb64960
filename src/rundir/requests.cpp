#include "rundir/requests.hpp"

#include <limits>

#include "base/error.hpp"
#include "comm/consensus.hpp"
#include "runtime/signals.hpp"

namespace cohort {

namespace fs = std::filesystem;

namespace {

constexpr double kSecondsBetweenLooks = 1.0;

// A file system that does not answer has no file.
bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

}  // namespace

Requests::Requests(fs::path run_folder, int rank, Clock clock)
    : run_folder_(std::move(run_folder)),
      looks_(rank == 0),
      clock_(clock),
      looked_at_(-std::numeric_limits<double>::infinity()) {}

std::array<std::int64_t, kRunRequests> Requests::poll() {
  if (looks_ && clock_() - looked_at_ >= kSecondsBetweenLooks) {
    looked_at_ = clock_();
    stop_file_ = is_there(run_folder_ / "stop");
    save_file_ = is_there(run_folder_ / "save");
  }
  const bool save = save_file_ && !saving_;
  saving_ = saving_ || save;
  return {stop_requested() ? 1 : 0, stop_file_ ? 1 : 0, save ? 1 : 0};
}

bool Requests::save_done() {
  if (!looks_) return true;
  std::error_code error;
  fs::remove(run_folder_ / "save", error);
  if (error) return false;
  save_file_ = saving_ = false;
  return true;
}

void refuse_if_stopped(Communicator& world, const fs::path& run_folder) {
  fail_together(world, "looking whether the run was stopped", [&] {
    const fs::path stop = run_folder / "stop";
    if (world.rank() == 0 && is_there(stop)) {
      fail(ExitCode::stopped, "this run was stopped by the file {}; remove it to resume: rm {}", stop.string(), stop.string());
    }
  });
}

}  // namespace cohort
