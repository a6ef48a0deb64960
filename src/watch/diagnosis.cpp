#include "watch/diagnosis.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/text.hpp"

namespace cohort {
namespace {

constexpr std::size_t kDescribed = 4;  // culprits, and operations, that are described one by one

/// The same collective on all its members: what one rank waits in, and the others should.
using CollectiveKey = std::tuple<std::string, std::vector<int>, std::uint64_t>;
CollectiveKey key_of(const ReportedOperation& operation) { return {operation.group, operation.members, operation.number}; }

bool is_in(const RankReport& report, const ReportedOperation& collective) {
  return std::any_of(report.waiting.begin(), report.waiting.end(), [&](const ReportedOperation& own) {
    return own.peer < 0 && key_of(own) == key_of(collective) && own.kind == collective.kind;
  });
}

/// Whether a rank has come past a collective of its group: it has called that or a later one, and waits for it no more.
bool is_past(const RankReport& report, const ReportedOperation& collective) {
  const auto same_group = [&](const ReportedOperation& own) {
    return own.peer < 0 && own.group == collective.group && own.members == collective.members;
  };
  bool called = report.finished && same_group(*report.finished) && report.finished->number >= collective.number;
  for (const ReportedOperation& own : report.waiting) {
    if (!same_group(own)) continue;
    if (own.number == collective.number) return false;
    called = called || own.number > collective.number;
  }
  return called;
}

/// Moves what holds nobody up from each rank's `waiting` to `passed`.
void set_passed_apart(std::vector<RankView>& ranks) {
  const std::vector<RankView> said = ranks;
  for (RankView& view : ranks) {
    std::erase_if(view.report.waiting, [&](const ReportedOperation& own) {
      const bool passed = own.peer < 0 && std::any_of(own.members.begin(), own.members.end(), [&](int member) {
                            return member >= 0 && static_cast<std::size_t>(member) < said.size() &&
                                   is_past(said[static_cast<std::size_t>(member)].report, own);
                          });
      if (passed && (!view.passed || view.passed->number < own.number)) view.passed = own;
      return passed;
    });
  }
}

/// Whom the others wait for: rank -> ranks that it waits for.
std::map<int, std::set<int>> who_waits_for_whom(const std::vector<RankView>& ranks) {
  std::map<int, std::set<int>> edges;
  const auto known = [&](int rank) { return rank >= 0 && static_cast<std::size_t>(rank) < ranks.size(); };
  for (const RankView& view : ranks) {
    for (const ReportedOperation& operation : view.report.waiting) {
      if (operation.peer >= 0) {
        if (known(operation.peer)) edges[view.report.rank].insert(operation.peer);
        continue;
      }
      for (const int member : operation.members) {
        if (known(member) && !is_in(ranks[static_cast<std::size_t>(member)].report, operation))
          edges[view.report.rank].insert(member);
      }
    }
  }
  return edges;
}

std::vector<int> ranks_of(const std::vector<RankView>& ranks, RankView::Link link) {
  std::vector<int> found;
  for (const RankView& view : ranks) {
    if (view.link == link) found.push_back(view.report.rank);
  }
  return found;
}

/// Ranks that are waited for and wait for nobody; who waits for nobody and is waited for by nobody is only slow to say what it
/// does.
std::vector<int> roots_of(const std::map<int, std::set<int>>& edges) {
  std::set<int> roots;
  for (const auto& [from, to] : edges) {
    for (const int rank : to) {
      if (!edges.contains(rank)) roots.insert(rank);
    }
  }
  return {roots.begin(), roots.end()};
}

/// "Ranks 0, 1 and 3 wait in all_reduce of ...", a line an operation.
std::string describe_waiting(const std::vector<RankView>& ranks) {
  std::map<std::string, std::vector<int>> by_text;
  std::size_t unreported = 0;
  for (const RankView& view : ranks) {
    for (const ReportedOperation& operation : view.report.waiting) by_text[operation.text].push_back(view.report.rank);
    unreported = std::max(unreported, view.report.more_waiting);
  }
  std::string lines;
  std::size_t shown = 0;
  for (const auto& [text, waiting] : by_text) {
    if (shown++ == kDescribed) {
      lines += fmt::format("\n  ... and {}", counted(static_cast<std::int64_t>(by_text.size() - kDescribed), "more operation"));
      break;
    }
    lines += fmt::format("\n  {} {} in {}", name_ranks(waiting), waiting.size() == 1 ? "waits" : "wait", text);
  }
  if (unreported > 0)
    lines += fmt::format("\n  ... and behind these up to {} on one rank",
                         counted(static_cast<std::int64_t>(unreported), "more operation"));
  return lines;
}

}  // namespace

std::string describe(const RankView& view, std::size_t ranks) {
  const RankReport& report = view.report;
  std::string text = fmt::format("rank {} of {} on {} (process {}) ", report.rank, ranks, report.host, report.process);
  const std::string place =
      report.activity.empty() ? "" : fmt::format(" When last heard of, it was {}: {}", name_step(report.step), report.activity);
  if (view.link == RankView::Link::gone) {
    text += "ended without a message: killed, crashed, or out of memory?" + place;
  } else if (view.link == RankView::Link::silent) {
    text += fmt::format("has been silent for {:.0f} s: {}.{}", view.seconds,
                        view.process_state.empty() ? "its process is stopped, or its node or network is down"
                                                   : "its process is " + view.process_state,
                        place);
  } else {
    text += fmt::format("is stuck {}: {} for {:.0f} s{}", name_step(report.step), report.activity, report.seconds_in_activity,
                        view.passed ? "; it has called no operation after " + view.passed->text + ", which others have done"
                        : report.waiting.empty() ? ", in no operation with other ranks"
                                                 : "; it has not called what others wait in");
    if (report.finished)
      text += fmt::format("; its last one was {}, done {:.0f} s ago", report.finished->text, report.finished->seconds);
  }
  return text;
}

std::string name_ranks(const std::vector<int>& ranks) {
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (end - i > 2) {
      runs.push_back(fmt::format("{}-{}", ranks[i], ranks[end - 1]));
      i = end;
    } else {
      runs.push_back(fmt::to_string(ranks[i++]));
    }
  }
  const std::string name = ranks.size() == 1 ? "rank" : "ranks";
  if (runs.size() == 1) return fmt::format("{} {}", name, runs[0]);
  const std::string last = runs.back();
  runs.pop_back();
  return fmt::format("{} {} and {}", name, fmt::join(runs, ", "), last);
}

Diagnosis diagnose(std::vector<RankView> ranks, double seconds) {
  set_passed_apart(ranks);
  Diagnosis diagnosis;
  diagnosis.culprits = ranks_of(ranks, RankView::Link::gone);
  if (diagnosis.culprits.empty()) diagnosis.culprits = ranks_of(ranks, RankView::Link::silent);
  const std::map<int, std::set<int>> edges = who_waits_for_whom(ranks);
  if (diagnosis.culprits.empty()) diagnosis.culprits = roots_of(edges);
  if (diagnosis.culprits.empty()) {
    const bool circle = !edges.empty();
    diagnosis.text = fmt::format("no progress for {:.0f} s: ", seconds);
    diagnosis.text += circle ? "ranks wait for each other in different operations (deadlock):"
                             : "no rank waits for a missing one. Is a device, the network or a disk stuck?";
    for (std::size_t i = 0; !circle && i < std::min(ranks.size(), kDescribed); ++i) {
      const RankReport& report = ranks[i].report;
      diagnosis.text += fmt::format("\n  rank {} {}: {} for {:.0f} s", report.rank, name_step(report.step), report.activity,
                                    report.seconds_in_activity);
    }
  }
  for (std::size_t i = 0; i < std::min(diagnosis.culprits.size(), kDescribed); ++i) {
    diagnosis.text += (i == 0 ? "" : "\n") + describe(ranks[static_cast<std::size_t>(diagnosis.culprits[i])], ranks.size());
  }
  if (diagnosis.culprits.size() > kDescribed) diagnosis.text += fmt::format("\n... in all {}", name_ranks(diagnosis.culprits));
  diagnosis.text += describe_waiting(ranks);
  return diagnosis;
}

}  // namespace cohort
