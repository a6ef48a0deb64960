// Which messages of the rank logs are wanted.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "logs/line.hpp"
#include "logs/pattern.hpp"
#include "logs/time_or_step.hpp"

namespace cohort {

struct RankRange {
  int first = 0;
  int last = 0;
};

/// "2,3-5". Throws Error(usage) with `option`, the position and examples.
std::vector<RankRange> parse_rank_ranges(std::string_view text, std::string_view option);

struct LogSelection {
  std::vector<RankRange> ranks{};  // empty: all
  std::optional<TimeOrStep> since{};
  std::optional<TimeOrStep> until{};  // included
  LogLevel level = LogLevel::debug;
  std::shared_ptr<const Pattern> pattern{};  // of the message; null: any

  bool wants(int rank) const;
};

/// The selection as the messages of one rank go through it, in their order: a step opens it for good, or ends it, where the rank
/// first speaks of it. What a rank wrote again after it went back to an earlier checkpoint counts as what it is: later.
class LogGate {
 public:
  /// `selection` must outlive this object.
  explicit LogGate(const LogSelection& selection) : selection_(selection), open_(!selection.since || !selection.since->step) {}

  enum class Verdict { take, leave, end };  // end: nor is any later message wanted
  Verdict decide(const LogRecord& record);

 private:
  const LogSelection& selection_;
  bool open_;
};

}  // namespace cohort
