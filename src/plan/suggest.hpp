// Which layouts of a number of ranks fit, and what each would cost.
#pragma once

#include <string>
#include <vector>

#include "base/device_kind.hpp"
#include "config/run_config.hpp"
#include "train/proof.hpp"

namespace cohort {

/// What a rank can do, to weigh work against messages.
struct RankSpeed {
  double flops_per_second = 0.0;
  double bytes_per_second = 0.0;  // that it sends
};

/// Rough figures: of a CPU core and a shared network, or of a large GPU with one 400 Gbit/s link.
RankSpeed usual_speed(DeviceKind device);

struct Suggestion {
  Layout layout;
  Bytes memory = 0;      // of the rank that needs most
  Bytes moved = 0;       // by the rank that sends most, in a step (traffic.hpp)
  double bubble = 0.0;   // pipeline: the share of its time that a rank waits
  double seconds = 0.0;  // of a step: work / (1 - bubble), then messages, as if nothing overlapped
};

struct Suggestions {
  std::vector<Suggestion> fitting;   // the fastest first
  Bytes least_memory = 0;            // of all layouts that the run allows, also of those that do not fit; 0 if it allows none
  std::vector<std::string> refused;  // reasons why others are none, each once
};

/// All dp, pp, cp and tp of `ranks` ranks with the strategies bucketed and zero1, without a pipeline also zero2 and zero3, for
/// the global batch of the run; tensor parallelism with sequence parallelism. `most_memory` is what a rank has, 0 for no limit.
/// `config` is validated for any number of ranks and its vocabulary known. Each layout is counted (train/counted_step.hpp).
Suggestions suggest_layouts(const RunConfig& config, int ranks, Bytes most_memory, const RankSpeed& speed);

}  // namespace cohort
