// Who works when: the nested spans of a rank as pieces of time that follow one another.
#pragma once

#include <string>
#include <vector>

#include "base/units.hpp"

namespace cohort {

/// A span of a track, as a trace has it. Those of one track nest, and come in the order of their begins, outer ones first.
struct TracedSpan {
  double begin = 0.0, end = 0.0;  // seconds of the trace
  std::string kind, name;
  int micro_batch = -1;
  std::string group = {}, operation = {};
};

struct TimelinePiece {
  double begin = 0.0, end = 0.0;  // seconds from the begin of the step
  std::string what;               // a phase; "waiting" for other ranks
  int micro_batch = -1;           // of forward and backward
};

struct Timeline {
  double seconds = 0.0;                           // from the first begin to the last end of the step, of any rank
  std::vector<std::vector<TimelinePiece>> ranks;  // by rank
};

/// What the track was doing between two moments, in pieces; where it was in no phase there is none.
std::vector<TimelinePiece> pieces_of(const std::vector<TracedSpan>& track, double begin, double end);

/// Leaves out what is shorter than about a pixel of a picture, and more if there is too much even so: for pages of many ranks.
void thin(Timeline& timeline);

/// Seconds of `track` by phase between two moments, inner phases taken off outer ones; "other" is the rest.
std::vector<std::pair<std::string, double>> phase_seconds(const std::vector<TracedSpan>& track, double begin, double end);

}  // namespace cohort
