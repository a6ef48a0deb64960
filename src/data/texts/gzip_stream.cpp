// gzip (RFC 1952): one member after another, as `cat a.gz b.gz` makes them; zero bytes behind the last are padding.
#include <zlib.h>

#include <algorithm>

#include "base/error.hpp"
#include "data/texts/stored_bytes.hpp"

namespace cohort {
namespace {

class GzipStream : public DecompressedStream {
 public:
  explicit GzipStream(const std::string& path) : DecompressedStream(path) {
    if (inflateInit2(&state_, 16 + MAX_WBITS) != Z_OK)
      fail(ExitCode::memory, "{}: no memory to decompress it", path);  // 16: gzip
  }
  ~GzipStream() override { inflateEnd(&state_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

 protected:
  std::size_t decompress(std::span<char> to) override {
    for (;;) {
      if (!inside_ && !begin_member()) return 0;
      state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input().data()));  // zlib reads it alone
      state_.avail_in = static_cast<uInt>(input().size());
      state_.next_out = reinterpret_cast<Bytef*>(to.data());
      state_.avail_out = static_cast<uInt>(std::min<std::size_t>(to.size(), 1u << 30));
      const uInt room = state_.avail_out;
      const int outcome = inflate(&state_, Z_NO_FLUSH);
      use(input().size() - state_.avail_in);
      if (outcome != Z_OK && outcome != Z_STREAM_END && outcome != Z_BUF_ERROR)
        fail_damaged(state_.msg != nullptr ? state_.msg : "no gzip data");
      if (outcome == Z_STREAM_END) inside_ = false;
      if (state_.avail_out < room) return room - state_.avail_out;
      if (inside_ && input().empty()) return 0;
    }
  }
  void check_end() override {
    if (inside_) fail_truncated();
  }

 private:
  bool begin_member() {
    const auto byte = std::find_if(input().begin(), input().end(), [](char c) { return c != '\0'; });
    if (begun_) use(static_cast<std::size_t>(byte - input().begin()));
    if (input().empty()) return false;
    if (begun_ && input().front() != '\x1F') fail_damaged("what follows the gzip data is something else");
    inflateReset(&state_);
    inside_ = begun_ = true;
    return true;
  }

  z_stream state_{};
  bool inside_ = false;  // of a member
  bool begun_ = false;   // the first member has
};

}  // namespace

std::unique_ptr<ByteStream> open_gzip_stream(const std::string& path) { return std::make_unique<GzipStream>(path); }

}  // namespace cohort
