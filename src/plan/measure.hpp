// A run's layout as it really is: a few steps in it, with every message and every tensor counted.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "parallel/pipeline/timeline.hpp"
#include "plan/memory.hpp"
#include "train/data_setup.hpp"

namespace cohort {

/// What a rank gave to one operation of one group in a step, as the message trace counts it.
struct MeasuredTraffic {
  std::string group, operation;
  Count calls = 0;
  Bytes bytes = 0;
};

/// The largest over the ranks, entry by entry, known to all.
struct Measurement {
  /// Most at once, since before the model was made. Activations: what the arenas handed out.
  ByKind<Bytes> memory;
  /// All kinds of one rank.
  Bytes total = 0;
  /// What the arenas have reserved for activations, used or not.
  Bytes arenas = 0;
  /// Tensors of other labels.
  std::map<std::string, Bytes> others;
  /// Of the last step; receives are left out, since each is another rank's send.
  std::vector<MeasuredTraffic> traffic;
  double step_seconds = 0.0;  // of the last step
  /// The last step of the pipeline that this rank is in, in seconds; empty without a pipeline. The only part that is not the same
  /// on all ranks.
  std::vector<pipeline::Event> events;
};

/// Trains `steps` steps, two at least: in the first, memory is still being taken. `config` is validated and its vocabulary known;
/// the weights are thrown away. // Collective over: world
Measurement measure(const RunConfig& config, const RunData& data, Communicator& world, Count steps);

}  // namespace cohort
