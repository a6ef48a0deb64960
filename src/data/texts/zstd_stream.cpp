// zstd (RFC 8878): one frame after another.
#include <zstd.h>
#include <zstd_errors.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "data/texts/stored_bytes.hpp"

namespace cohort {
namespace {

class ZstdStream : public DecompressedStream {
 public:
  explicit ZstdStream(const std::string& path) : DecompressedStream(path), path_(path), state_(ZSTD_createDStream()) {
    if (state_ == nullptr) fail(ExitCode::memory, "{}: no memory to decompress it", path);
    ZSTD_DCtx_setParameter(state_, ZSTD_d_windowLogMax, kMostWindowLog);
  }
  ~ZstdStream() override { ZSTD_freeDStream(state_); }
  ZstdStream(const ZstdStream&) = delete;
  ZstdStream& operator=(const ZstdStream&) = delete;

 protected:
  std::size_t decompress(std::span<char> to) override {
    ZSTD_outBuffer out{to.data(), to.size(), 0};
    while (out.pos == 0) {
      ZSTD_inBuffer in{input().data(), input().size(), 0};
      // Without input, what the decompressor still holds comes out.
      const std::size_t left = ZSTD_decompressStream(state_, &out, &in);
      if (ZSTD_getErrorCode(left) == ZSTD_error_frameParameter_windowTooLarge) {
        fail(ExitCode::data,
             "{}: compressed with a window of more than {} (zstd --long), which needs as much memory to read; compress it again "
             "without: zstdcat --long=31 FILE | zstd > NEW",
             path_, human_bytes(Bytes{1} << kMostWindowLog));
      }
      if (ZSTD_isError(left) != 0) fail_damaged(ZSTD_getErrorName(left));
      const bool moved = in.pos > 0 || out.pos > 0;
      if (moved) inside_ = left != 0;
      use(in.pos);
      if (!moved) break;
    }
    return out.pos;
  }
  void check_end() override {
    if (inside_) fail_truncated();
  }

 private:
  static constexpr int kMostWindowLog = 27;  // 128 MiB, what `zstd -d` takes unless told otherwise

  std::string path_;
  ZSTD_DStream* state_;
  bool inside_ = false;  // of a frame
};

}  // namespace

std::unique_ptr<ByteStream> open_zstd_stream(const std::string& path) { return std::make_unique<ZstdStream>(path); }

}  // namespace cohort
