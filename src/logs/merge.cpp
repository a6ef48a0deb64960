#include "logs/merge.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "base/error.hpp"

namespace cohort {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kFolderPrefix = "rank_";
constexpr const char* kFile = "train.log";

// All blocks together, and of each log: enough that opening a file costs little beside reading it, and a few for thousands of
// ranks.
constexpr std::size_t kAllBlocks = 64 << 20;
constexpr std::size_t kSmallestBlock = 4 << 10;
constexpr std::size_t kLargestBlock = 256 << 10;

fs::path log_of(const fs::path& run, int rank) { return run / "logs" / fmt::format("{}{}", kFolderPrefix, rank) / kFile; }

}  // namespace

std::vector<int> ranks_with_logs(const fs::path& run) {
  std::vector<int> ranks;
  std::error_code error;
  const fs::path folder = run / "logs";
  if (!fs::exists(folder, error)) return ranks;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!name.starts_with(kFolderPrefix)) continue;
    int rank = -1;
    const char* const last = name.data() + name.size();
    const auto [parsed, problem] = std::from_chars(name.data() + kFolderPrefix.size(), last, rank);
    std::error_code ignored;
    if (problem == std::errc() && parsed == last && rank >= 0 && fs::exists(log_of(run, rank), ignored)) ranks.push_back(rank);
  }
  if (error) fail(ExitCode::io, "cannot list the folder '{}': {}", folder.string(), error.message());
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

LogMerge::LogMerge(fs::path run, const LogSelection& selection, bool grows)
    : run_(std::move(run)), selection_(selection), grows_(grows) {
  const std::size_t logs = std::max<std::size_t>(ranks_with_logs(run_).size(), 1);
  block_bytes_ = std::clamp(kAllBlocks / logs, kSmallestBlock, kLargestBlock);
  look_again();
}

void LogMerge::look_again() {
  COHORT_CHECK(heap_.empty(), "{} ranks have messages that nobody took", heap_.size());
  for (const int rank : ranks_with_logs(run_)) {
    if (!selection_.wants(rank)) continue;
    Source fresh{.reader = LogReader(log_of(run_, rank), rank, block_bytes_), .gate = LogGate(selection_)};
    Source& source = sources_.try_emplace(rank, std::move(fresh)).first->second;
    if (!source.ended) advance(rank, source);
  }
}

void LogMerge::advance(int rank, Source& source) {
  while (source.reader.next(source.head, grows_)) {
    const LogGate::Verdict verdict = source.gate.decide(source.head);
    if (verdict == LogGate::Verdict::leave) continue;
    if (verdict == LogGate::Verdict::end) {
      source.ended = true;
      source.reader.close();
      return;
    }
    heap_.push({source.head.time, rank});
    return;
  }
}

bool LogMerge::next(LogRecord& record) {
  if (heap_.empty()) return false;
  const int rank = heap_.top().rank;
  heap_.pop();
  Source& source = sources_.at(rank);
  std::swap(record, source.head);
  advance(rank, source);
  return true;
}

}  // namespace cohort
