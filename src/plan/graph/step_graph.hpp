// What a step computes on one rank, unit by unit: ops with their shapes, what they keep for backward, and what goes between
// ranks. Recorded while the step is counted (train/counted_step.hpp): it is the step's own code that is drawn, whatever the
// family of the model and the layout.
#pragma once

#include <string>
#include <vector>

#include "base/counting_listener.hpp"
#include "config/run_config.hpp"

namespace cohort {

struct GraphTensor {
  Shape shape;
  DType dtype = DType::f32;
  std::string symbols = {};  // the shape in the sizes of the model, "[BT, 3C]" (size_names.hpp); "" before they are known
};

/// An op of a unit, or an operation of a group of ranks in its place among them. One that is done several times alike, such as
/// those of a loss that is computed in pieces, is here once.
struct GraphOp {
  std::string name;        // "linear", "all_gather"
  std::string group = {};  // of an operation among ranks; "" of an op
  Bytes given = 0;         // to it, by this rank, each time
  Count times = 1;         // in one pass through the unit; of what belongs to no unit, in the step
  std::vector<GraphTensor> results = {};
  std::vector<std::string> parameters = {};  // that it reads or, in backward, adds gradients to
  /// Ops whose results it reads.
  struct Input {
    std::size_t unit, op;  // places in GraphStage::units and GraphUnit::forward
    bool operator==(const Input&) const = default;
  };
  std::vector<Input> inputs = {};  // of forward
  Bytes kept = 0;                  // of its results until backward, of all micro-batches that are under way at once
};

/// What a group of ranks is asked for during the whole step, by all forward or all backward passes of a unit.
struct GraphTraffic {
  std::string operation, group;
  int ranks = 1;
  bool backward = false;
  Count calls = 0;
  Bytes bytes = 0;  // given, as in plan/traffic.hpp
};

struct GraphUnit {
  std::string name = {};                             // "" of what belongs to no unit: between them, and the step's own
  Count parameters = 0;                              // of this rank's part
  std::vector<GraphOp> forward = {}, backward = {};  // "memory": what no op writes, such as messages that arrive
  std::vector<GraphTraffic> traffic = {};
  Bytes kept = 0;     // until backward: the sum of that of the ops
  Bytes scratch = 0;  // what else is there when most is
};

struct GraphStage {
  int stage = 0;
  std::vector<GraphUnit> units;  // in the order of the first pass; at the end that without a name
  Bytes activations() const;     // most at once: what units keep, and scratch
};

/// One rank of pipeline stage `stage`. `config` is validated and its vocabulary known.
GraphStage record_graph(const RunConfig& config, int stage);

/// The same operation of all units of all stages put together, as predict_traffic() does: the largest over the stages.
std::vector<GraphTraffic> traffic_of(const std::vector<GraphStage>& stages);

}  // namespace cohort
