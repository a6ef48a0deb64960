#include "logs/view.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "logs/deduplicate.hpp"
#include "logs/merge.hpp"
#include "observe/clock.hpp"
#include "watch/diagnosis.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

// Between two looks: so long, and four times as long as a look takes, since it asks the file system about each log; but Ctrl-C
// must not wait for ever.
constexpr double kShortestPause = 0.2, kLongestPause = 2.0;  // seconds

void check_folder(const fs::path& run) {
  std::error_code error;
  if (fs::is_directory(run, error)) return;
  std::vector<std::string> others;
  const fs::path parent = run.has_parent_path() ? run.parent_path() : fs::path(".");
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error)) {
    others.push_back(entry->path().filename());
  }
  const std::string nearest = nearest_name(run.filename().string(), others);
  fail(ExitCode::io, "{}: no such folder{}", run.string(),
       nearest.empty() ? "" : fmt::format("; did you mean {}?", (run.parent_path() / nearest).string()));
}

void check_ranks(const LogViewOptions& options) {
  const std::vector<int> present = ranks_with_logs(options.run);
  if (present.empty()) {
    fail(ExitCode::io,
         "{}: no logs/rank_N/train.log: is it a run folder? Logs appear when training begins (--follow waits for them)",
         options.run.string());
  }
  constexpr std::size_t kMostNamed = 8;
  std::vector<int> missing;
  for (const RankRange& range : options.selection.ranks) {
    for (int rank = range.first; rank <= range.last && missing.size() < kMostNamed; ++rank) {
      if (!std::binary_search(present.begin(), present.end(), rank)) missing.push_back(rank);
      if (rank == range.last) break;  // the largest int has no successor
    }
  }
  if (missing.empty()) return;
  fail(ExitCode::usage, "{}: {} {} no log; {} {} (--follow waits for others)", options.run.string(), name_ranks(missing),
       missing.size() == 1 ? "has" : "have", name_ranks(present), present.size() == 1 ? "has one" : "have one");
}

/// Keeps the last few messages of what is there, and lets all that comes later through.
class Tail {
 public:
  Tail(std::optional<Count> last, const std::function<void(std::string_view)>& print) : last_(last), print_(print) {}
  void add(LogRecord&& record) {
    if (!last_) return print_(record.text);
    held_.push_back(std::move(record.text));
    if (static_cast<Count>(held_.size()) > *last_) held_.pop_front();
  }
  void open() {
    last_.reset();
    for (const std::string& text : held_) print_(text);
    held_.clear();
  }

 private:
  std::optional<Count> last_;
  const std::function<void(std::string_view)>& print_;
  std::deque<std::string> held_;
};

}  // namespace

void show_logs(const LogViewOptions& options, const std::function<void(std::string_view)>& print,
               const std::function<bool()>& ended) {
  check_folder(options.run);
  if (!options.follow) check_ranks(options);
  LogMerge merge(options.run, options.selection, options.follow);
  Tail tail(options.last, print);
  LogDeduplicator fold([&](LogRecord&& record) { tail.add(std::move(record)); });
  const auto show_what_is_there = [&] {
    LogRecord record;
    while (!ended() && merge.next(record)) options.fold ? fold.add(std::move(record)) : tail.add(std::move(record));
    fold.flush();
  };
  show_what_is_there();
  tail.open();
  double pause = kShortestPause;
  while (options.follow && !ended()) {
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
    const double begin = steady_seconds();
    merge.look_again();
    pause = std::clamp(4.0 * (steady_seconds() - begin), kShortestPause, kLongestPause);
    show_what_is_there();
  }
}

}  // namespace cohort
