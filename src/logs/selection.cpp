#include "logs/selection.hpp"

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "base/text.hpp"

namespace cohort {
namespace {

// The rank at the front of `rest`, which loses it; -1 if there is none.
int take_rank(std::string_view& rest) {
  int rank = -1;
  const auto [end, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), rank);
  if (problem != std::errc() || rank < 0) return -1;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return rank;
}

}  // namespace

std::vector<RankRange> parse_rank_ranges(std::string_view text, std::string_view option) {
  std::vector<RankRange> ranges;
  std::string_view rest = text;
  while (true) {
    const std::size_t begin = text.size() - rest.size() + 1;
    const auto refuse = [&](std::string_view problem) {
      fail(ExitCode::usage, "{} '{}': {} at character {}; write 2, 0,3 or 2,4-7", option, text, problem, begin);
    };
    RankRange range;
    range.first = range.last = take_rank(rest);
    if (range.first >= 0 && rest.starts_with('-')) {
      rest.remove_prefix(1);
      range.last = take_rank(rest);
    }
    if (range.first < 0 || range.last < 0) refuse("a rank or range of ranks is missing");
    if (range.last < range.first) refuse("the range ends before it begins");
    ranges.push_back(range);
    if (rest.empty()) return ranges;
    if (!rest.starts_with(',')) refuse("not a rank or range of ranks");
    rest.remove_prefix(1);
  }
}

bool LogSelection::wants(int rank) const {
  return ranks.empty() || std::any_of(ranks.begin(), ranks.end(),
                                      [&](const RankRange& range) { return range.first <= rank && rank <= range.last; });
}

LogGate::Verdict LogGate::decide(const LogRecord& record) {
  const std::optional<TimeOrStep>&since = selection_.since, &until = selection_.until;
  // Looked for only where it is asked for: it costs as much as all the rest.
  const bool by_step = (since && since->step) || (until && until->step);
  const Count step = by_step ? step_in(record.what()).value_or(-1) : -1;
  if (!open_) open_ = step >= *since->step;
  if (!open_) return Verdict::leave;
  if (since && !since->step && record.time < since->time) return Verdict::leave;
  if (until && (until->step ? step > *until->step : record.time > until->time)) return Verdict::end;
  if (record.level < selection_.level) return Verdict::leave;
  if (selection_.pattern && !selection_.pattern->matches(record.what())) return Verdict::leave;
  return Verdict::take;
}

}  // namespace cohort
