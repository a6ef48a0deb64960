// The spans of a process in the trace event format, which Perfetto and Chrome open (Google, "Trace Event Format", 2016). A
// process of the format is a rank, with these tracks:
//   the step         nested slices of the thread of the steps: step, phase, micro-batch, layer, waits
//   the saver        what a thread in the background does
//   requests         operations among ranks, as pairs of begin and end, since they overlap; a track for each group and operation
//   the device       a track for the compute stream, for the communication stream, and for the kernels of each stream
// The category (cat) of an event is the kind of its span; what is known of an operation is in its arguments.
#pragma once

#include <string>

#include "observe/tracer.hpp"

namespace cohort {

struct TracedRank {
  int rank = 0;
  std::string label;   // shown beside it: its host and its place
  double shift = 0.0;  // added to its seconds gives the seconds of the trace
};

/// "step", "phase", ...
std::string_view name_of(TraceSpan::Kind kind);

/// The events of what `tracer` has traced, one a line, separated by ",\n"; times of a track rise.
std::string trace_events(const Tracer& tracer, const TracedRank& rank);

/// What stands before the first event and behind the last one. `facts` is a JSON object.
std::string trace_head(const std::string& facts);
std::string_view trace_tail();

}  // namespace cohort
