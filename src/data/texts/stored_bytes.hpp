// The bytes of a file as they are stored, and the streams that decompress them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "data/texts/byte_stream.hpp"

namespace cohort {

/// An open file, a text or ids of another program.
class StoredBytes {
 public:
  /// Throws Error(io).
  explicit StoredBytes(std::string path);
  ~StoredBytes();
  StoredBytes(const StoredBytes&) = delete;
  StoredBytes& operator=(const StoredBytes&) = delete;

  /// From `offset` on, as many as fit or there are. Throws Error(io).
  std::size_t read_at(Bytes offset, std::span<char> to) const;
  const std::string& path() const { return path_; }
  /// When it was opened.
  Bytes size() const { return size_; }

 private:
  std::string path_;
  int descriptor_;
  Bytes size_ = 0;
};

/// A stream that is decompressed: the file's bytes come in blocks.
class DecompressedStream : public ByteStream {
 public:
  explicit DecompressedStream(const std::string& path) : file_(path), block_(std::size_t{1} << 17) {}

  std::size_t read(std::span<char> to) final;
  void seek(Bytes offset) final;
  bool goes_back() const final { return false; }

 protected:
  /// Decompresses from input() to `to` and says how much came; 0: it needs more input, or the text is at its end.
  virtual std::size_t decompress(std::span<char> to) = 0;
  /// The file has ended: throws through fail_truncated() if the compressed data has not.
  virtual void check_end() = 0;

  /// What was read of the file and is not used yet.
  std::span<const char> input() const { return input_; }
  void use(std::size_t bytes) { input_ = input_.subspan(bytes); }
  /// Throws Error(data) with the byte of the file.
  [[noreturn]] void fail_damaged(std::string_view what) const;
  [[noreturn]] void fail_truncated() const;

 private:
  StoredBytes file_;
  std::vector<char> block_;
  std::span<const char> input_;
  Bytes block_end_ = 0;  // in the file
  Bytes position_ = 0;   // in the text
};

std::unique_ptr<ByteStream> open_gzip_stream(const std::string& path);
std::unique_ptr<ByteStream> open_zstd_stream(const std::string& path);

}  // namespace cohort
