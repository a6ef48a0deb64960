// A text in pieces that can be read and encoded on their own, on any rank: piece i of a text are the bytes from cut(i) to
// cut(i + 1), where cut(i) is a good place at i * size or behind it that the text alone decides. Without compression a piece is
// found without reading those before it. Memory: a piece, and kLongestRecord at most.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.hpp"
#include "data/texts/byte_stream.hpp"
#include "data/texts/input_files.hpp"

namespace cohort {

/// What a document is.
struct Framing {
  enum class Kind : std::uint8_t {
    whole,     // the text is one
    lines,     // each line is one; blank ones are none
    separated  // what stands before, between and behind lines that say `separator`; "": blank lines
  };
  Kind kind = Kind::whole;
  std::string separator;
};

class PieceReader {
 public:
  /// `size`: at least 16 bytes.
  PieceReader(InputFile file, Framing framing, Bytes size);

  /// Reads piece `number`, which may be empty; false if the text ends before it. Pieces of compressed texts are read in order.
  /// Throws Error(io), Error(data): as ByteStream; a line or document of more than kLongestRecord bytes.
  bool read(Count number);

  std::string_view text() const;          // of the piece; whole records where the text has records
  Bytes begin() const { return begin_; }  // in the text
  bool last() const { return last_; }     // the text ends with it
  const InputFile& file() const { return file_; }

  static constexpr Bytes kLongestRecord = 64 * kMiB;

 private:
  Bytes buffer_end() const { return buffer_begin_ + static_cast<Bytes>(buffer_.size()); }
  char at(Bytes offset) const { return buffer_[static_cast<std::size_t>(offset - buffer_begin_)]; }
  void start_at(Bytes offset);
  void fill(Bytes offset);
  Bytes cut(Bytes wanted);
  Bytes cut_in_whole(Bytes wanted);
  Bytes end_of_line(Bytes from, Bytes limit);

  InputFile file_;
  Framing framing_;
  Bytes size_;
  std::unique_ptr<ByteStream> stream_;
  std::string buffer_;
  Bytes buffer_begin_ = 0;
  bool ended_ = false;  // the buffer ends where the text does
  Bytes begin_ = 0, end_ = 0;
  bool last_ = false;
};

/// The records of a piece with lines or separators, without line feed or separator, and where each begins in the piece. Empty
/// ones are left out, and counted.
Count for_each_record(std::string_view piece, const Framing& framing,
                      const std::function<void(std::string_view record, std::size_t begin)>& visit);

/// The line in which this byte of a text stands, from 1 on: reads the text up to there.
Count line_of_byte(const InputFile& file, Bytes offset);

}  // namespace cohort
