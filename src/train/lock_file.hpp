// A lock that is a file, for folders on any file system, and that knows whether its owner still lives.
//
// It needs no more than link() and rename(), which NFS does rightly: the file is written under another name and then linked to
// its own, which fails if somebody else was first (open(2) explains, at O_EXCL, why link is the one to trust). No kernel lock is
// involved, so a killed process leaves its file behind. Whether the owner lives is found out like this:
//   - on the same machine (same boot, same PID namespace): by its process number and the time when that process began. Nothing to
//     wait for, nothing to clean up by hand after kill -9.
//   - in an earlier start of the same SLURM job (SLURM_RESTART_COUNT is higher now): it is dead; SLURM starts a job again only
//   when
//     all of it has ended.
//   - else by the age of the file, which the owner touches every ten seconds. One that nobody touched for a minute is abandoned.
//     Ages are differences of two times that the file system gave, so the clocks of nodes need not agree.
// The lock of a dead owner is replaced under a second lock of the same kind, FILE.takeover, so that of several processes that
// find it one gets it.
#pragma once

#include <filesystem>
#include <string>

namespace cohort {

/// The SLURM job that a process belongs to; id "" if to none.
struct JobStart {
  std::string id;
  int restart = 0;
};

class LockFile {
 public:
  static constexpr int kTouchSeconds = 10;      // so often the owner calls touch()
  static constexpr int kAbandonedSeconds = 60;  // so old is the file of an owner that is gone

  /// Takes the lock; its folder must exist. An owner on this machine gets a few seconds to end, as a killed one needs. Throws
  /// Error(launch) that says who has it, since when, and how to get it; Error(io) if the folder cannot be written.
  LockFile(std::filesystem::path path, JobStart job);
  /// Gives it back, if it still is one's own.
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

  /// A sign of life. False if the lock is another's now, or was removed: then this process must not write in the folder any more.
  bool touch() const;

  /// Who had the lock, if that one was dead: "process 4711 on node1, since ..."; "" if nobody had it.
  const std::string& dead_owner() const { return dead_owner_; }

 private:
  bool take_from_the_dead(const std::filesystem::path& written, const std::string& found) const;

  std::filesystem::path path_;
  JobStart job_;
  std::string text_;  // what the file says
  std::string dead_owner_;
};

}  // namespace cohort
