#include "rundir/lock_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "observe/clock.hpp"
#include "observe/flight_recorder.hpp"
#include "rundir/file_status.hpp"
#include "runtime/signals.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using Life = LockOwner::Life;

// What a process that was just killed may need to be gone, and a file that was just made to be seen.
constexpr double kGraceSeconds = 2.0;
constexpr double kLooksPerHeartbeat = 100.0;  // ten a second: nothing for a file system, soon enough for people

std::string reason(int error) { return std::generic_category().message(error); }

// A lock as it is at one moment.
struct Sight {
  int error = 0;  // ENOENT: there is certainly none; another: the file system did not say
  FileStatus status;
  std::string text;  // "" if it cannot be read

  // Who may not read the file still sees its time. A read that failed is no change.
  bool differs_from(const Sight& other) const {
    const bool other_text = !text.empty() && !other.text.empty() && text != other.text;
    return other_text || error != other.error || status.inode != other.status.inode ||
           status.touched_seconds != other.status.touched_seconds ||
           status.touched_nanoseconds != other.status.touched_nanoseconds;
  }
};

std::string text_of_lock(int descriptor) {
  std::string text;
  std::array<char, 4096> piece{};
  ssize_t count = 0;
  while ((count = read(descriptor, piece.data(), piece.size())) > 0) text.append(piece.data(), static_cast<std::size_t>(count));
  return count == 0 ? text : "";
}

// Its text, inode and time are of one and the same file, even if the lock changes hands meanwhile: a lock that seemed to have no
// text would pass for one that its owner had just touched.
Sight look(const fs::path& path) {
  Sight sight;
  const auto see = [&](const std::optional<FileStatus>& status) {
    if (status) {
      sight.status = *status;
    } else {
      sight.error = errno;
    }
    return status.has_value();
  };
  if (!see(status_of(path)) || !sight.status.is_file) return sight;
  const int descriptor = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) {  // gone meanwhile (ESTALE: NFS); or it may not be read
    if (errno == ENOENT || errno == ESTALE) sight.error = ENOENT;
    return sight;
  }
  see(status_of(descriptor));
  sight.text = text_of_lock(descriptor);
  close(descriptor);
  return sight;
}

// A new lock under another name, which is gone when this object is.
class Draft {
 public:
  Draft(const fs::path& lock, const LockOwner& owner) : path_(lock.string() + "." + owner.token + ".tmp") {
    const std::string text = owner.text();
    const int descriptor = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    bool written = descriptor >= 0 && write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    int error = errno;
    if (descriptor >= 0 && close(descriptor) != 0 && written) {  // NFS may tell only here that there is no space
      written = false;
      error = errno;
    }
    if (written) return;
    if (descriptor >= 0) unlink(path_.c_str());
    fail(ExitCode::io,
         "cannot write to {}: {}; the user running the job needs write permission and space there; or choose another place with "
         "--set run.directory=FOLDER",
         lock.parent_path().string(), reason(error));
  }
  ~Draft() { unlink(path_.c_str()); }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  const char* path() const { return path_.c_str(); }

 private:
  std::string path_;
};

// Whether `path`, where there was nothing, is the lock of `self` now.
bool take_free(const fs::path& path, const LockOwner& self) {
  const Draft draft(path, self);
  if (link(draft.path(), path.c_str()) == 0) return true;
  const int error = errno;
  if (look(path).text == self.text()) return true;  // NFS may lose the answer to a link that it made
  if (error == EEXIST) return false;
  fail(ExitCode::io,
       "cannot create the lock {}: {}; it needs hard links, which some file systems lack (vfat, SMB, some FUSE): choose another "
       "one with --set run.directory=FOLDER",
       path.string(), reason(error));
}

// Whether `path`, a lock of somebody who is dead, is that of `self` now.
bool take_from_the_dead(const fs::path& path, const Sight& found, const LockOwner& self, const LockOptions& options) {
  const LockFile alone(path.string() + ".takeover", self.job, options);
  if (look(path).differs_from(found)) return false;  // somebody else was faster, or the owner is not dead
  const Draft draft(path, self);
  if (rename(draft.path(), path.c_str()) == 0) return true;
  fail(ExitCode::io, "cannot take over the lock {}: {}", path.string(), reason(errno));
}

void require_a_lock(const fs::path& path, const Sight& found) {
  if (found.error != 0) fail(ExitCode::io, "cannot read the lock {}: {}", path.string(), reason(found.error));
  if (found.status.is_file) return;
  fail(ExitCode::io, "{} is not a regular file, but the run needs its lock there: move it away", path.string());
}

// A folder given by mistake may have a file of this name, which is not to be replaced. One that is empty, or cannot be read, is
// watched like a lock.
void require_one_of_ours(const fs::path& path, const Sight& found, const LockOwner& owner) {
  if (found.text.empty() || !owner.token.empty()) return;
  fail(ExitCode::io,
       "{} was not written by Cohort, which needs that name for its lock: choose another folder with --set run.directory=FOLDER, "
       "or move the file away",
       path.string());
}

// What one process sees of another's lock, from look to look.
class Watch {
 public:
  Watch(const fs::path& path, const LockOptions& options) : path_(path), options_(options) {}

  Sight look_again() {
    Sight now = look(path_);
    const bool differs = !last_ || now.differs_from(*last_);
    changed_ = differs && last_ && last_->error == 0 && now.error == 0;
    if (differs) since_ = steady_seconds();
    last_ = now;
    return now;
  }

  // Of the owner of what was seen last. Unknown: not to be told yet.
  Life decide(Life seen) const {
    if (seen == Life::alive) return steady_seconds() - begin_ < kGraceSeconds ? Life::unknown : Life::alive;
    if (seen == Life::dead) return Life::dead;
    if (changed_) return Life::alive;
    return unchanged() > options_.abandoned ? Life::dead : Life::unknown;
  }

  // That the owner must be watched, once.
  void tell_of(const LockOwner& owner) {
    if (std::exchange(told_, true)) return;
    options_.say(
        fmt::format("waiting for {}, which holds the lock of {}: if it is alive, that shows within {:g} s and this start ends; "
                    "if not, it takes over after {:g} s",
                    owner.str(), path_.parent_path().string(), 2 * options_.heartbeat, options_.abandoned));
  }

  // Somebody made a file that cannot be seen from here, unless it is gone already.
  void require_to_see() const {
    if (unchanged() < kGraceSeconds) return;
    fail(ExitCode::io,
         "the lock {} can neither be created (it exists) nor read (it does not): this node's view of the file system is stale; "
         "start again later",
         path_.string());
  }

  void wait() const {
    const FlightRecorder::LongCall waits("waiting for the lock of the run folder");
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds_between_looks()));
    if (!stop_requested()) return;
    fail(ExitCode::interrupted, "stopped by {} while waiting for the lock {}; nothing was done", signal_name(stop_signal()),
         path_.string());
  }

  [[noreturn]] void refuse(const LockOwner& owner, Life seen) const {
    fail(ExitCode::launch, "{} belongs to a running job: {}; {}. Wait for it to end, or {}", path_.parent_path().string(),
         owner.str(),
         seen == Life::alive ? "its process is alive"
                             : fmt::format("its last heartbeat was at most {:.1f} s ago", seconds_between_looks()),
         options_.way_out);
  }

 private:
  double unchanged() const { return steady_seconds() - since_; }
  double seconds_between_looks() const { return options_.heartbeat / kLooksPerHeartbeat; }

  const fs::path& path_;
  const LockOptions& options_;
  double begin_ = steady_seconds();
  std::optional<Sight> last_;
  double since_ = begin_;  // when the lock was first seen as it is
  bool changed_ = false;   // between the last two looks, both of which saw a lock
  bool told_ = false;
};

}  // namespace

LockFile::LockFile(fs::path path, const JobStart& job, const LockOptions& options) : path_(std::move(path)) {
  const LockOwner self = LockOwner::self(job);
  text_ = self.text();
  Watch watch(path_, options);
  while (true) {
    const Sight found = watch.look_again();
    if (found.error == ENOENT) {
      if (take_free(path_, self)) return;
      watch.require_to_see();
      watch.wait();
      continue;
    }
    require_a_lock(path_, found);
    const LockOwner owner = LockOwner::from(found.text);
    require_one_of_ours(path_, found, owner);
    const Life seen = owner.life_seen_by(job);
    const Life life = watch.decide(seen);
    if (life == Life::alive) watch.refuse(owner, seen);
    if (life == Life::dead && take_from_the_dead(path_, found, self, options)) {
      dead_owner_ = owner.str();
      return;
    }
    if (seen == Life::unknown && life == Life::unknown) watch.tell_of(owner);
    if (life == Life::unknown) watch.wait();
  }
}

LockFile::~LockFile() {
  if (look(path_).text == text_) unlink(path_.c_str());
}

bool LockFile::touch() const {
  const Sight found = look(path_);
  if (found.error == ENOENT) return false;
  if (!found.text.empty() && found.text != text_) return false;
  utimensat(AT_FDCWD, path_.c_str(), nullptr, 0);  // if it fails, the next time tells
  return true;
}

}  // namespace cohort
