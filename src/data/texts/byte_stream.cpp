#include "data/texts/byte_stream.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "data/texts/stored_bytes.hpp"

namespace cohort {

// O_NONBLOCK: opening a pipe would wait for somebody who writes into it.
StoredBytes::StoredBytes(std::string path)
    : path_(std::move(path)), descriptor_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) {
    const int error = errno;
    fail(ExitCode::io, "cannot read the text '{}': {}{}", path_, std::strerror(error),
         error == EACCES ? "; the user running the job needs read permission" : "");
  }
  struct stat status {};
  if (::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode)) {
    size_ = status.st_size;
    return;
  }
  ::close(descriptor_);
  fail(ExitCode::io, "cannot read the text '{}': it is {}; name a file", path_,
       S_ISDIR(status.st_mode) ? "a directory" : "not a plain file");
}

StoredBytes::~StoredBytes() { ::close(descriptor_); }

std::size_t StoredBytes::read_at(Bytes offset, std::span<char> to) const {
  for (std::size_t done = 0;;) {
    const ssize_t got = ::pread(descriptor_, to.data() + done, to.size() - done, offset + static_cast<Bytes>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      fail(ExitCode::io, "cannot read the text '{}' at byte {}: {}", path_, offset + static_cast<Bytes>(done),
           std::strerror(errno));
    done += static_cast<std::size_t>(got);
    if (got == 0 || done == to.size()) return done;
  }
}

std::size_t DecompressedStream::read(std::span<char> to) {
  for (;;) {
    if (const std::size_t got = decompress(to); got > 0) {
      position_ += static_cast<Bytes>(got);
      return got;
    }
    // What is left over stays in front of what comes.
    const std::size_t kept = input_.size();
    std::memmove(block_.data(), input_.data(), kept);
    const std::size_t more = file_.read_at(block_end_, std::span(block_).subspan(kept));
    input_ = std::span(block_).first(kept + more);
    block_end_ += static_cast<Bytes>(more);
    if (more == 0) {
      check_end();
      return 0;
    }
  }
}

void DecompressedStream::seek(Bytes offset) {
  COHORT_CHECK(offset >= position_, "{}: back from byte {} of the text to {}", file_.path(), position_, offset);
  std::vector<char> skipped(static_cast<std::size_t>(std::min<Bytes>(offset - position_, 1 << 18)));
  while (position_ < offset) {
    const auto wanted = std::min(skipped.size(), static_cast<std::size_t>(offset - position_));
    if (read(std::span(skipped).first(wanted)) == 0) return;
  }
}

void DecompressedStream::fail_damaged(std::string_view what) const {
  fail(ExitCode::data, "{}: damaged near byte {} of the file: {}; copy it again", file_.path(),
       block_end_ - static_cast<Bytes>(input_.size()), what);
}

void DecompressedStream::fail_truncated() const {
  fail(ExitCode::data, "{}: truncated: the compressed data goes on where the file ends, at byte {} of the file; copy it again",
       file_.path(), block_end_);
}

namespace {

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(const std::string& path) : file_(path) {}
  std::size_t read(std::span<char> to) override {
    const std::size_t got = file_.read_at(position_, to);
    position_ += static_cast<Bytes>(got);
    return got;
  }
  void seek(Bytes offset) override { position_ = offset; }
  bool goes_back() const override { return true; }

 private:
  StoredBytes file_;
  Bytes position_ = 0;
};

}  // namespace

Compression compression_of(const std::string& path) {
  std::array<char, 4> start{};
  const std::string_view magic(start.data(), StoredBytes(path).read_at(0, start));
  if (magic.starts_with("\x1F\x8B\x08")) return Compression::gzip;
  if (magic == "\x28\xB5\x2F\xFD") return Compression::zstd;
  return Compression::none;
}

std::unique_ptr<ByteStream> open_byte_stream(const InputFile& file) {
  switch (file.compression) {
    case Compression::gzip:
      return open_gzip_stream(file.path);
    case Compression::zstd:
      return open_zstd_stream(file.path);
    case Compression::none:
      break;
  }
  return std::make_unique<PlainStream>(file.path);
}

}  // namespace cohort
