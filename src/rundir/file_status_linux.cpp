#include <fcntl.h>
#include <sys/stat.h>

#include "rundir/file_status.hpp"

namespace cohort {
namespace {

// `name` is looked up in the working folder; "" means the file `descriptor` itself. NFS asks its server when told to.
std::optional<FileStatus> ask(int descriptor, const char* name, int flags) {
  struct statx status {};
  constexpr unsigned kWanted = STATX_TYPE | STATX_INO | STATX_MTIME;
  if (statx(descriptor, name, flags | AT_STATX_FORCE_SYNC, kWanted, &status) != 0) return std::nullopt;
  return FileStatus{S_ISREG(status.stx_mode), status.stx_ino, status.stx_mtime.tv_sec, status.stx_mtime.tv_nsec};
}

}  // namespace

std::optional<FileStatus> status_of(const std::filesystem::path& path) {
  return ask(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW);
}

std::optional<FileStatus> status_of(int descriptor) { return ask(descriptor, "", AT_EMPTY_PATH); }

}  // namespace cohort
