#include "logs/log_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/text.hpp"

namespace cohort {
namespace {

/// A file that is open while this object lives.
class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace

bool LogReader::refill() {
  const auto refuse = [&] { fail(ExitCode::io, "cannot read the log '{}': {}", path_.string(), std::strerror(errno)); };
  const OpenFile file(path_);
  if (file.descriptor() < 0) {
    if (errno == ENOENT) return false;  // the run began anew and its logs are gone: this rank's comes back
    refuse();
  }
  struct stat facts = {};
  if (::fstat(file.descriptor(), &facts) != 0) refuse();
  if (facts.st_ino != file_ || facts.st_size < read_) {
    file_ = facts.st_ino;
    read_ = 0;
    buffer_.clear();
    begin_ = 0;
  }
  buffer_.erase(0, begin_);
  begin_ = 0;
  const std::size_t kept = buffer_.size();
  buffer_.resize(kept + block_bytes_);
  ssize_t got = -1;
  do {
    got = ::pread(file.descriptor(), buffer_.data() + kept, block_bytes_, read_);
  } while (got < 0 && errno == EINTR);
  if (got < 0) refuse();
  buffer_.resize(kept + static_cast<std::size_t>(got));
  read_ += got;
  return got > 0;
}

bool LogReader::peek(std::string_view& line, bool grows) {
  while (true) {
    const std::size_t newline = buffer_.find('\n', begin_);
    if (newline != std::string::npos) {
      line = std::string_view(buffer_).substr(begin_, newline + 1 - begin_);
      return true;
    }
    line = std::string_view(buffer_).substr(begin_);
    if (line.size() >= kLongestMessage) return true;
    if (!refill()) {
      line = std::string_view(buffer_).substr(begin_);
      return !grows && !line.empty();
    }
  }
}

bool LogReader::next(LogRecord& record, bool grows) {
  std::string_view line;
  if (!peek(line, grows)) return false;
  const std::optional<LogHeader> header = parse_header(line);
  if (header) {
    time_ = header->time;
    level_ = header->level;
  }
  record.time = time_;
  record.level = level_;
  record.rank = rank_;
  record.message = header ? header->length : 0;
  record.text.clear();
  std::size_t left_out = 0;
  do {
    const std::size_t room = kLongestMessage - record.text.size();
    record.text += line.substr(0, room);
    left_out += line.size() - std::min(room, line.size());
    take(line.size());
  } while (peek(line, grows) && !parse_header(line));
  if (!record.text.ends_with('\n')) record.text += '\n';
  if (left_out > 0)
    record.text += fmt::format("... and {} of this message in {}\n", counted(static_cast<std::int64_t>(left_out), "more byte"),
                               path_.string());
  return true;
}

}  // namespace cohort
