#include "data/texts/pieces.hpp"

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "data/bpe/bpe_trainer.hpp"
#include "observe/flight_recorder.hpp"

namespace cohort {
namespace {

constexpr Bytes kBehind = 5;              // bytes before a cut that are looked at
constexpr Bytes kReadBlock = 256 * kKiB;  // read at a time, and how far a good place in a text without records is looked for
constexpr auto kNone = std::string::npos;

std::string_view without_return(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

PieceReader::PieceReader(InputFile file, Framing framing, Bytes size)
    : file_(std::move(file)), framing_(std::move(framing)), size_(size), stream_(open_byte_stream(file_)) {
  COHORT_CHECK(size_ >= 16, "pieces of {} bytes", size_);
}

std::string_view PieceReader::text() const {
  return std::string_view(buffer_).substr(static_cast<std::size_t>(begin_ - buffer_begin_),
                                          static_cast<std::size_t>(end_ - begin_));
}

bool PieceReader::read(Count number) {
  const Bytes first = number * size_;
  start_at(std::max<Bytes>(first - kBehind, 0));
  fill(first + 1);
  if (number > 0 && buffer_end() <= first) return false;
  begin_ = cut(first);
  end_ = cut(first + size_);
  fill(end_ + 1);
  last_ = ended_ && end_ == buffer_end();
  return number == 0 || begin_ < end_ || !last_;
}

void PieceReader::start_at(Bytes offset) {
  if (offset >= buffer_begin_ && offset <= buffer_end()) {
    buffer_.erase(0, static_cast<std::size_t>(offset - buffer_begin_));
  } else {
    if (offset < buffer_begin_ && !stream_->goes_back()) stream_ = open_byte_stream(file_);
    stream_->seek(offset);
    buffer_.clear();
    ended_ = false;
  }
  buffer_begin_ = offset;
}

void PieceReader::fill(Bytes offset) {
  while (!ended_ && buffer_end() < offset) {
    const std::size_t before = buffer_.size();
    buffer_.resize(before + static_cast<std::size_t>(std::max(offset - buffer_end(), kReadBlock)));
    const std::size_t got = stream_->read(std::span(buffer_).subspan(before));
    buffer_.resize(before + got);
    ended_ = got == 0;
  }
}

// The end of the line that holds `from`: behind its line feed, or that of the text.
Bytes PieceReader::end_of_line(Bytes from, Bytes limit) {
  for (Bytes searched = from;;) {
    fill(searched + 1);
    const std::size_t found = buffer_.find('\n', static_cast<std::size_t>(searched - buffer_begin_));
    if (found != kNone) return buffer_begin_ + static_cast<Bytes>(found) + 1;
    searched = buffer_end();
    if (ended_) return searched;
    if (searched > limit) {
      fail(ExitCode::data, "{}: line {}, at byte {} of the text: {} of more than {}, which is the most; {}", file_.path,
           line_of_byte(file_, from), from, framing_.kind == Framing::Kind::lines ? "a line" : "a document",
           human_bytes(kLongestRecord),
           framing_.kind == Framing::Kind::lines ? "is it lines of JSON?" : "is the separator right?");
    }
  }
}

Bytes PieceReader::cut_in_whole(Bytes wanted) {
  const Bytes reach = wanted + std::min(size_, kReadBlock);
  fill(reach + 1);
  if (buffer_end() <= wanted) return buffer_end();
  const auto from = static_cast<std::size_t>(wanted - kBehind - buffer_begin_);
  const std::string_view near = std::string_view(buffer_).substr(from, static_cast<std::size_t>(reach - wanted + kBehind));
  const std::size_t found = cut_between_pieces(near, static_cast<std::size_t>(kBehind));
  if (found < near.size()) return wanted - kBehind + static_cast<Bytes>(found);
  if (buffer_end() <= reach && ended_) return buffer_end();
  Bytes place = wanted;  // a single line of any length: between characters
  while (place < wanted + 3 && (static_cast<unsigned char>(at(place)) & 0xC0u) == 0x80u) ++place;
  return at(place) == '\n' && at(place - 1) == '\r' ? place + 1 : place;
}

Bytes PieceReader::cut(Bytes wanted) {
  if (wanted == 0) return 0;
  if (framing_.kind == Framing::Kind::whole) return cut_in_whole(wanted);
  const Bytes limit = wanted + kLongestRecord;
  Bytes line = end_of_line(wanted - 1, limit);
  if (framing_.kind == Framing::Kind::lines) return line;
  for (;;) {
    fill(line + 1);
    if (line == buffer_end()) return line;
    const Bytes end = end_of_line(line, limit);
    std::string_view text =
        std::string_view(buffer_).substr(static_cast<std::size_t>(line - buffer_begin_), static_cast<std::size_t>(end - line));
    if (text.ends_with('\n')) text.remove_suffix(1);
    if (without_return(text) == framing_.separator) return end;
    line = end;
  }
}

Count for_each_record(std::string_view piece, const Framing& framing,
                      const std::function<void(std::string_view record, std::size_t begin)>& visit) {
  Count empty = 0;
  std::size_t record = 0;  // where the current one begins
  for (std::size_t line = 0; line < piece.size();) {
    const std::size_t feed = std::min(piece.find('\n', line), piece.size());
    const std::size_t next = std::min(feed + 1, piece.size());
    const std::string_view text = without_return(piece.substr(line, feed - line));
    if (framing.kind == Framing::Kind::lines) {
      if (text.find_first_not_of(" \t") != kNone) visit(text, line);
    } else if (text == framing.separator) {
      if (line > record) visit(piece.substr(record, line - record), record);
      // Several blank lines in a row are one separator.
      if (line == record && !framing.separator.empty()) ++empty;
      record = next;
    }
    line = next;
  }
  if (framing.kind == Framing::Kind::separated && record < piece.size()) visit(piece.substr(record), record);
  return empty;
}

Count line_of_byte(const InputFile& file, Bytes offset) {
  const std::unique_ptr<ByteStream> stream = open_byte_stream(file);
  std::vector<char> block(static_cast<std::size_t>(kReadBlock));
  Count line = 1;
  while (offset > 0) {
    const std::size_t got = stream->read(std::span(block).first(static_cast<std::size_t>(std::min(offset, kReadBlock))));
    if (got == 0) break;
    FlightRecorder::of_process().beat();
    line += std::count(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(got), '\n');
    offset -= static_cast<Bytes>(got);
  }
  return line;
}

}  // namespace cohort
