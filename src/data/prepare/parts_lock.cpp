#include "data/prepare/parts_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/error.hpp"

namespace cohort {

PartsLock::PartsLock(const std::filesystem::path& folder)
    : path_(folder / "lock"), file_(::open(path_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666)) {
  if (file_ < 0) fail(ExitCode::io, "cannot create '{}': {}", path_.string(), std::strerror(errno));
  if (::flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(file_);
  fail(ExitCode::io,
       "another `cohort data prepare` is writing this token file: it has locked {}; wait for it, or choose another --out",
       path_.string());
}

PartsLock::~PartsLock() {
  std::error_code ignored;
  std::filesystem::remove(path_,
                          ignored);  // before the lock is given back: whoever waits must not find a file that is removed later
  ::close(file_);
}

}  // namespace cohort
