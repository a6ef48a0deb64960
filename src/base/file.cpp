#include "base/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/error.hpp"

namespace cohort {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

// An open file descriptor. close() reports errors; the destructor, which runs on the way out of a failure, does not.
class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }
  /// 0, or the error number.
  int close() { return ::close(std::exchange(fd_, -1)) == 0 ? 0 : errno; }

 private:
  int fd_;
};

// NFS and some FUSE file systems answer fsync of a folder with EINVAL: there the rename is as durable as it gets.
void sync(const std::filesystem::path& path, bool folder) {
  Descriptor file(path, O_RDONLY | (folder ? O_DIRECTORY : 0));
  if (!file.valid()) fail(ExitCode::io, "cannot open '{}' to flush it to disk: {}", path.string(), reason(errno));
  if (::fsync(file.get()) != 0 && !(folder && errno == EINVAL)) {
    fail(ExitCode::io, "cannot flush '{}' to disk: {}", path.string(), reason(errno));
  }
}

}  // namespace

std::string read_file(const std::filesystem::path& path, std::string_view what) {
  const Descriptor file(path, O_RDONLY);
  if (!file.valid()) {
    const int error = errno;
    const char* advice = error == ENOENT   ? "; check the path and the working directory"
                         : error == EACCES ? "; the user running the job needs read permission"
                                           : "";
    fail(ExitCode::io, "cannot read the {} '{}': {}{}", what, path.string(), reason(error), advice);
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail(ExitCode::io, "cannot read the {} '{}': {}", what, path.string(), reason(errno));
  if (S_ISDIR(status.st_mode))
    fail(ExitCode::io, "cannot read the {} '{}': it is a directory; name a file in it", what, path.string());
  std::string text;
  std::array<char, 1 << 16> block;
  for (;;) {
    const ssize_t got = ::read(file.get(), block.data(), block.size());
    if (got == 0) return text;
    if (got > 0) {
      text.append(block.data(), static_cast<std::size_t>(got));
    } else if (errno != EINTR) {
      fail(ExitCode::io, "cannot read the {} '{}' at byte {}: {}", what, path.string(), text.size(), reason(errno));
    }
  }
}

void write_file_atomically(const std::filesystem::path& name, std::string_view text) {
  std::error_code error_of_name;
  const bool is_link = std::filesystem::is_symlink(name, error_of_name);
  const std::filesystem::path path = is_link ? std::filesystem::weakly_canonical(name, error_of_name) : name;
  std::filesystem::path temporary = path;
  temporary += ".tmp";
  Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
  if (!file.valid()) fail(ExitCode::io, "cannot write '{}': {}", temporary.string(), reason(errno));
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = ::write(file.get(), text.data() + written, text.size() - written);
    if (count >= 0) {
      written += static_cast<std::size_t>(count);
    } else if (errno != EINTR) {
      fail(ExitCode::io, "cannot write '{}' beyond byte {}: {}", temporary.string(), written, reason(errno));
    }
  }
  // A full disk or a lost NFS server may only show here.
  if (const int error = file.close(); error != 0) fail(ExitCode::io, "cannot write '{}': {}", temporary.string(), reason(error));
  commit_file(temporary, path);
}

void flush_to_disk(const std::filesystem::path& path) { sync(path, std::filesystem::is_directory(path)); }

// sync_file_range takes no note of errors of earlier writes, nor do open and close: the fsync that comes later reports them.
void begin_flush(const std::filesystem::path& path) {
  const Descriptor file(path, O_RDONLY);
  if (file.valid()) static_cast<void>(::sync_file_range(file.get(), 0, 0, SYNC_FILE_RANGE_WRITE));
}

void commit_file(const std::filesystem::path& temporary, const std::filesystem::path& path) {
  flush_to_disk(temporary);
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    fail(ExitCode::io, "cannot rename '{}' to '{}': {}", temporary.string(), path.string(), reason(errno));
  }
  sync(path.has_parent_path() ? path.parent_path() : std::filesystem::path("."), true);
}

void make_folders(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail(ExitCode::io, "cannot create the folder '{}': {}", path.string(), error.message());
  if (!std::filesystem::is_directory(path, error))
    fail(ExitCode::io, "'{}' exists and is not a folder; move it away", path.string());
}

}  // namespace cohort
