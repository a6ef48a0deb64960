// Makes one message of those that many ranks wrote alike at nearly the same time: "... info ranks 0-3: message".
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "logs/line.hpp"

namespace cohort {

class LogDeduplicator {
 public:
  /// Ranks write the same message within so many milliseconds, or it is not of one event: clocks of nodes differ by less (NTP).
  static constexpr std::int64_t kWindow = 1000;
  /// So many different messages are held back at most.
  static constexpr std::size_t kMostHeld = 4096;

  explicit LogDeduplicator(std::function<void(LogRecord&&)> sink) : sink_(std::move(sink)) {}

  /// Records in order of time. They reach the sink in that order, each when no rank can join it any more.
  void add(LogRecord&& record);
  /// All that is held back.
  void flush();

 private:
  struct Group {
    LogRecord first;
    std::vector<int> ranks;
  };

  void release();

  std::function<void(LogRecord&&)> sink_;
  std::deque<Group> held_;                               // oldest first
  std::uint64_t released_ = 0;                           // groups that have left: held_[i] is group number released_ + i
  std::unordered_map<std::string, std::uint64_t> last_;  // message -> the last group of it
};

}  // namespace cohort
