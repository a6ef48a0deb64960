// Reads one rank log message by message, with little memory and no file left open, so that thousands of logs can be read side by
// side: a block at a time, for which the file is opened and closed again.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "logs/line.hpp"

namespace cohort {

class LogReader {
 public:
  /// A longer message is cut there, and says so.
  static constexpr std::size_t kLongestMessage = 64 << 10;  // bytes

  /// `block_bytes` are read at a time, and about as many are kept.
  LogReader(std::filesystem::path path, int rank, std::size_t block_bytes)
      : path_(std::move(path)), rank_(rank), block_bytes_(block_bytes) {}

  /// The next message; false if there is none now, and perhaps later, when the log has grown. A last line without its newline is
  /// being written: it is left for later if the log `grows`, else it is taken as it is. Lines before the first that has a header
  /// are a message of time 0; lines that turn up after their message was handed out are one of its time and level. A file that
  /// became shorter, or that another replaced, is read from its start. Throws Error(io).
  bool next(LogRecord& record, bool grows);

  /// Gives back the memory for the block; only after the last call of next().
  void close() { buffer_ = {}; }

 private:
  // The next line with its newline, valid until the next call: nothing if there is none. A line that is longer than any message
  // comes in pieces.
  bool peek(std::string_view& line, bool grows);
  void take(std::size_t bytes) { begin_ += bytes; }
  // Appends a block of the file to the buffer; false if there is nothing more.
  bool refill();

  std::filesystem::path path_;
  int rank_;
  std::size_t block_bytes_;
  std::string buffer_;  // what was read; from begin_ on it was not handed out yet
  std::size_t begin_ = 0;
  off_t read_ = 0;         // bytes of the file
  ino_t file_ = 0;         // which file it is
  std::int64_t time_ = 0;  // of the last header
  LogLevel level_ = LogLevel::info;
};

}  // namespace cohort
