// The rank logs of a run as one sequence of messages in order of time: a merge of the logs, each of which is in order (a heap
// of the next message of each). Of each rank one message and one block of its log are in memory, and one file at a time is open.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <queue>
#include <vector>

#include "logs/log_reader.hpp"
#include "logs/selection.hpp"

namespace cohort {

/// The ranks that have a log in the run's folder, in order. Throws Error(io).
std::vector<int> ranks_with_logs(const std::filesystem::path& run);

class LogMerge {
 public:
  /// `selection` must outlive this object. `grows`: lines that are being written are left for later.
  LogMerge(std::filesystem::path run, const LogSelection& selection, bool grows);

  /// The next message that is wanted; false if there is none now. Messages of one time come in the order of ranks, those of one
  /// rank always in the order of its log, even if its clock was set back.
  bool next(LogRecord& record);

  /// After next() returned false: looks for what the logs have gained, and for logs of other ranks.
  void look_again();

 private:
  struct Source {
    LogReader reader;
    LogGate gate;
    LogRecord head{};  // the next message, if the rank is in the heap
    bool ended = false;
  };
  struct Entry {
    std::int64_t time;
    int rank;
    bool operator>(const Entry& other) const { return time != other.time ? time > other.time : rank > other.rank; }
  };

  /// Reads to the next message of the rank that is wanted, and enters it into the heap.
  void advance(int rank, Source& source);

  std::filesystem::path run_;
  const LogSelection& selection_;
  bool grows_;
  std::size_t block_bytes_;
  std::map<int, Source> sources_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap_;
};

}  // namespace cohort
