#include "report/trace_timeline.hpp"

#include <algorithm>
#include <functional>

namespace cohort {
namespace {

// Calls visit(begin, end, open) for each stretch of [begin, end) in which the same spans are open, outermost first.
void walk(const std::vector<TracedSpan>& track, double begin, double end,
          const std::function<void(double, double, const std::vector<const TracedSpan*>&)>& visit) {
  std::vector<const TracedSpan*> open;
  double at = begin;
  const auto go_to = [&](double moment) {
    moment = std::clamp(moment, begin, end);
    if (moment > at) visit(at, moment, open);
    at = std::max(at, moment);
  };
  const auto close_until = [&](double moment) {
    while (!open.empty() && open.back()->end <= moment) {
      go_to(open.back()->end);
      open.pop_back();
    }
  };
  for (const TracedSpan& span : track) {
    if (span.end <= begin || span.begin >= end) continue;
    close_until(span.begin);
    go_to(span.begin);
    open.push_back(&span);
  }
  close_until(end);
  go_to(end);
}

bool is_waiting(const TracedSpan& span) { return span.kind == "wait" || span.kind == "stall"; }

// A phase; or on a device, whose track has no phases, what stands for one.
bool is_phase(const TracedSpan& span) { return span.kind == "phase"; }

TimelinePiece piece_of(double begin, double end, const std::vector<const TracedSpan*>& open) {
  TimelinePiece piece{begin, end, "", -1};
  for (const TracedSpan* span : open) {
    if (is_phase(*span)) {
      piece.what = span->name;
      piece.micro_batch = -1;
    } else if (span->micro_batch >= 0) {
      piece.micro_batch = span->micro_batch;
      if (piece.what.empty()) piece.what = span->name.substr(0, span->name.find(' '));  // "forward 3"
    } else if (is_waiting(*span)) {
      piece.what = "waiting";
      piece.micro_batch = -1;
    }
  }
  return piece;
}

}  // namespace

std::vector<TimelinePiece> pieces_of(const std::vector<TracedSpan>& track, double begin, double end) {
  std::vector<TimelinePiece> pieces;
  walk(track, begin, end, [&](double from, double to, const std::vector<const TracedSpan*>& open) {
    TimelinePiece piece = piece_of(from - begin, to - begin, open);
    if (piece.what.empty()) return;
    const bool goes_on = !pieces.empty() && pieces.back().end == piece.begin && pieces.back().what == piece.what &&
                         pieces.back().micro_batch == piece.micro_batch;
    if (goes_on) {
      pieces.back().end = piece.end;
    } else {
      pieces.push_back(std::move(piece));
    }
  });
  return pieces;
}

void thin(Timeline& timeline) {
  constexpr std::size_t kMostPieces = 20000;
  const auto count = [&] {
    std::size_t pieces = 0;
    for (const auto& rank : timeline.ranks) pieces += rank.size();
    return pieces;
  };
  double shortest = timeline.seconds / 2000.0;
  do {
    for (auto& pieces : timeline.ranks) {
      std::vector<TimelinePiece> kept;
      for (TimelinePiece& piece : pieces) {
        const bool same = !kept.empty() && kept.back().what == piece.what && kept.back().micro_batch == piece.micro_batch;
        const bool near = !kept.empty() && piece.begin - kept.back().end < shortest;
        if (near && (same || piece.end - piece.begin < shortest)) {
          kept.back().end = piece.end;
        } else {
          kept.push_back(std::move(piece));
        }
      }
      pieces = std::move(kept);
    }
    shortest *= 2.0;
  } while (count() > kMostPieces && shortest < timeline.seconds);
}

std::vector<std::pair<std::string, double>> phase_seconds(const std::vector<TracedSpan>& track, double begin, double end) {
  std::vector<std::pair<std::string, double>> seconds;
  walk(track, begin, end, [&](double from, double to, const std::vector<const TracedSpan*>& open) {
    std::string name = "other";
    for (const TracedSpan* span : open) {
      if (is_phase(*span)) name = span->name;
    }
    const auto found = std::find_if(seconds.begin(), seconds.end(), [&](const auto& entry) { return entry.first == name; });
    if (found != seconds.end()) {
      found->second += to - from;
    } else {
      seconds.emplace_back(name, to - from);
    }
  });
  return seconds;
}

}  // namespace cohort
