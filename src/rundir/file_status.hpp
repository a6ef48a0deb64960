// Which file it is, and when it was written last: asked of the server of its file system, not of what this node remembers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace cohort {

struct FileStatus {
  bool is_file = false;
  std::uint64_t inode = 0;
  std::int64_t touched_seconds = 0, touched_nanoseconds = 0;
};

/// Of what has that name, links not followed. Nothing, with errno, if the file system does not say.
std::optional<FileStatus> status_of(const std::filesystem::path& path);
/// Of an open file; the same.
std::optional<FileStatus> status_of(int descriptor);

}  // namespace cohort
