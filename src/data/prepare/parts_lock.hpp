// One preparation at a time in a folder of parts: two of the same token file would delete each other's.
#pragma once

#include <filesystem>

namespace cohort {

class PartsLock {
 public:
  /// Takes the lock of an existing folder, which is given back when the process ends, however it ends. Throws Error(io): another
  /// process has it; or it cannot be made. On file systems without locks of whole files nobody is kept out.
  explicit PartsLock(const std::filesystem::path& folder);
  /// Removes the file that was locked.
  ~PartsLock();
  PartsLock(const PartsLock&) = delete;
  PartsLock& operator=(const PartsLock&) = delete;

 private:
  std::filesystem::path path_;
  int file_ = -1;
};

}  // namespace cohort
