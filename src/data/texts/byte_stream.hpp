// The text of a file as a stream of bytes, decompressed if need be, with memory that does not depend on its size.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/units.hpp"
#include "data/texts/input_files.hpp"

namespace cohort {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// The next bytes of the text, as many as come easily and fit; 0 at its end. Throws Error(io): the file cannot be read;
  /// Error(data) with the byte of the file: compressed data that is damaged or ends early.
  virtual std::size_t read(std::span<char> to) = 0;
  /// Goes to this byte of the text, or to its end if it has fewer. Compressed texts only go forward, at the price of
  /// decompressing what lies between.
  virtual void seek(Bytes offset) = 0;
  virtual bool goes_back() const = 0;
};

/// Told by the first bytes. Throws Error(io): unreadable, a directory.
Compression compression_of(const std::string& path);

std::unique_ptr<ByteStream> open_byte_stream(const InputFile& file);

}  // namespace cohort
