// Who has a lock: what a lock file says of the process that wrote it, and whether another process can tell that it lives.
#pragma once

#include <sys/types.h>

#include <string>

namespace cohort {

/// The start of a SLURM job that a process belongs to; id "" if to none.
struct JobStart {
  std::string id;
  int restart = 0;           // SLURM_RESTART_COUNT
  std::string cluster = "";  // of several that share a file system, if SLURM says which
};

struct LockOwner {
  std::string host;
  pid_t process = 0;
  std::string process_began;  // in clock ticks since boot
  std::string machine;        // one PID namespace of one boot of one kernel, where a process number means one process; "" unknown
  JobStart job;
  std::string since;  // UTC
  std::string token;  // no two owners have the same

  /// This process, with a new token.
  static LockOwner self(const JobStart& job);
  /// The owner that wrote `text`. Of a text that no LockFile wrote, or that cannot be read (""), nothing is known.
  static LockOwner from(const std::string& text);

  std::string text() const;
  /// "SLURM job 12, process 4711 on node1, since 2025-03-01T12:00:00.250Z".
  std::string str() const;

  enum class Life {
    alive,
    dead,
    unknown  // cannot be told from here; only the file may show it
  };
  /// As a process of `job` on this machine sees it. On the owner's own machine its process decides, whatever SLURM counts. Else
  /// an owner in an earlier start of the same SLURM job counts as dead: SLURM restarts a job when it has ended, or when it has
  /// given up a node of it. On such a node the owner may live on; that it has lost its lock it learns from LockFile::touch().
  Life life_seen_by(const JobStart& job) const;
};

}  // namespace cohort
