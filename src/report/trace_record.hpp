// What a trace (train/trace_file.hpp) says, added up: where the time of each rank went, what was exchanged, and who worked when.
// The file is read event by event, so that only one rank of it is ever in memory.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "report/trace_timeline.hpp"

namespace cohort {

/// Of one group and operation, on the ranks that took part, over all traced steps.
struct TracedOperations {
  std::string group, operation;
  int ranks = 1;         // of the group
  int callers = 0;       // ranks that asked for it
  Count calls = 0;       // of all callers together, and so are the others:
  Bytes bytes = 0;       // payload
  double seconds = 0.0;  // from the start of each to its end
  double exposed = 0.0;  // in which the thread of the step, or on a GPU the compute stream, waited for it
};

struct TracedMessages {
  int from = 0, to = 0;
  Count calls = 0;
  Bytes bytes = 0;
};

struct TracedRankTimes {
  std::string label;
  double seconds = 0.0;                  // of all traced steps
  double training = 0.0;                 // without validations and saves
  double exposed = 0.0;                  // exposed communication
  std::map<std::string, double> phases;  // seconds by phase; what is in none is "other"
  double kernels = 0.0;                  // in which a kernel or copy ran on the GPU, if the trace has them

  double exposed_share() const { return training > 0.0 ? exposed / training : 0.0; }
  /// Seconds in which the rank held up nobody but itself.
  double own_work() const { return training - exposed; }
};

struct TraceRecord {
  std::filesystem::path file;
  std::string run, layout, strategy, version;
  std::string kernels;  // "CUPTI", or why there are none; "" on CPUs
  int rank_count = 1;
  Count first_step = 0, last_step = 0;
  double clock_error = 0.0;  // seconds
  std::vector<TracedRankTimes> ranks;
  std::vector<TracedOperations> operations;  // by what is exposed of them, the most first
  std::vector<TracedMessages> messages;      // by sender and receiver
  Count timeline_step = 0;                   // the one in the middle
  Timeline timeline;                         // of that step

  Count steps() const { return last_step - first_step + 1; }
};

/// On a CPU exposed communication is what StepTimers::exposed() says, step by step the same. On a GPU it is
/// the time in which the compute stream stalled, as the metrics have it: kernels do not tell, since copies from GPU to GPU have
/// none. Steps without their validations and saves.
///
/// Throws Error(io): the file, its line, and what is wrong there: no trace of Cohort, or one that is cut off.
TraceRecord read_trace_record(const std::filesystem::path& file);

}  // namespace cohort
