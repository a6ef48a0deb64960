// Who is to blame when a job hangs, from what every rank last said of itself. Pure: no threads, no sockets, no clock.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "watch/report.hpp"

namespace cohort {

/// A rank as rank 0 sees it at the end.
struct RankView {
  /// heard: it answers, and its report is of now. silent: connected, but its process says nothing. gone: its connection has ended
  /// without notice. In the latter two the report has only what it said last: no operations.
  enum class Link { heard, silent, gone };
  RankReport report;
  Link link = Link::heard;
  double seconds = 0.0;       // since it was heard last
  std::string process_state;  // of a silent or lost one, if somebody on its host could look: "stopped by a signal"
  /// Set by diagnose(): the newest collective that its report says it waits in, but that others of the group have done.
  std::optional<ReportedOperation> passed = {};
};

struct Diagnosis {
  std::vector<int> culprits;  // ranks; empty: all wait for each other
  std::string text;           // one line of what happened, then lines of who waits for what
};

/// `ranks` in the order of ranks. The order of suspicion: ranks that are gone; silent ones; those that others wait for, directly
/// or through others, and that wait for nobody. If there is none of these, ranks wait for each other in different operations: the
/// text lists them with the places that called them. `seconds`: for so long nothing has moved.
Diagnosis diagnose(std::vector<RankView> ranks, double seconds);

/// "rank 2 of 4 on node1 (process 123) has been silent for 8 s, ...": what is known of a rank that is to blame.
std::string describe(const RankView& rank, std::size_t ranks);

/// "rank 2", "ranks 0-3 and 7".
std::string name_ranks(const std::vector<int>& ranks);

}  // namespace cohort
