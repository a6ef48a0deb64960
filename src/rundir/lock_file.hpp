// A lock that is a file, for folders on any file system with hard links, and that knows whether its owner still lives.
//
// It needs no more than link() and rename(), which NFS does rightly: the file is written under another name and then linked to
// its own, which fails if somebody else was first (open(2) explains, at O_EXCL, why link is the one to trust). No kernel lock is
// involved, so a killed process leaves its file behind. Whether its owner lives is found out like this:
//   - On the owner's machine, or from a later start of the same SLURM job: at once (LockOwner::life_seen_by).
//   - Else by watching the file. The owner touches it at each heartbeat: whoever sees a change knows that it lives, and whoever
//     sees none for so long that several heartbeats would have come takes it for abandoned. The watcher measures on its own clock
//     for how long it has seen no change; what time the file is said to be touched at does not matter, since on some file systems
//     that is the clock of the node that touched it.
// The lock of a dead owner is replaced under a second lock of the same kind, FILE.takeover, so that of several processes that
// find it one gets it. An owner that was taken for dead (a node that was cut off, a file system that hung) learns that it
// has lost the lock when it next calls touch().
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "rundir/lock_owner.hpp"

namespace cohort {

struct LockOptions {
  double heartbeat = 10.0;  // seconds between two calls of touch(), the same for all who may want the lock
  double abandoned = 60.0;  // seconds without a change after which a lock counts as abandoned
  /// Where it is said, once, that somebody's lock is being watched, whose, and for how long at most. Must be set.
  std::function<void(const std::string&)> say;
  /// What else one can do if the lock is refused, after "Wait for its end, or ".
  std::string way_out;
};

class LockFile {
 public:
  /// Takes the lock; its folder must exist. Returns at once if nobody has it, or if the owner is known to be dead. An owner on
  /// this machine gets a few seconds to end, as a killed one needs; one of which nothing is known is watched (see above), while
  /// the flight recorder sees this process progress. Throws Error(launch) that says who has the lock, since when, and when it
  /// showed life; Error(interrupted) if a stop signal comes meanwhile; Error(io) if the folder cannot be written, or has
  /// something else of that name, be it a file that no LockFile wrote.
  LockFile(std::filesystem::path path, const JobStart& job, const LockOptions& options);
  /// Gives it back, if it still is one's own.
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

  /// A sign of life, to be given at each heartbeat. False if the lock is another's now, or was removed: then this process must
  /// not write in the folder any more. A file system that does not answer, or gives an error, says nothing about that: true.
  bool touch() const;

  /// Who had the lock, if it was taken from a dead owner (LockOwner::str); "" if nobody had it.
  const std::string& dead_owner() const { return dead_owner_; }

 private:
  std::filesystem::path path_;
  std::string text_;  // what the file says
  std::string dead_owner_;
};

}  // namespace cohort
