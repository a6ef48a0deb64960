#include <sys/stat.h>

#include "rundir/file_status.hpp"

namespace cohort {
namespace {

FileStatus converted(const struct stat& status) {
  return {S_ISREG(status.st_mode), status.st_ino, status.st_mtimespec.tv_sec, status.st_mtimespec.tv_nsec};
}

}  // namespace

// NFS asks its server when a file is opened: the lock is opened for each look at it.
std::optional<FileStatus> status_of(const std::filesystem::path& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return std::nullopt;
  return converted(status);
}

std::optional<FileStatus> status_of(int descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return std::nullopt;
  return converted(status);
}

}  // namespace cohort
