#include "plan/graph/step_graph.hpp"

#include <algorithm>

#include "plan/graph/graph_recorder.hpp"
#include "train/counted_step.hpp"

namespace cohort {

Bytes GraphStage::activations() const {
  Bytes bytes = 0;
  for (const GraphUnit& unit : units) bytes += unit.kept + unit.scratch;
  return bytes;
}

GraphStage record_graph(const RunConfig& config, int stage) {
  GraphRecorder recorder;
  listen_to_step(config, stage, recorder, [&](const Model& model) { recorder.begin(model); });
  return {stage, recorder.finish()};
}

std::vector<GraphTraffic> traffic_of(const std::vector<GraphStage>& stages) {
  const auto add_to = [](std::vector<GraphTraffic>& list, const GraphTraffic& one) -> GraphTraffic& {
    const auto found = std::find_if(list.begin(), list.end(), [&](const GraphTraffic& other) {
      return other.operation == one.operation && other.group == one.group;
    });
    return found != list.end() ? *found : list.emplace_back(GraphTraffic{one.operation, one.group, one.ranks});
  };
  std::vector<GraphTraffic> largest;
  for (const GraphStage& stage : stages) {
    std::vector<GraphTraffic> sums;
    for (const GraphUnit& unit : stage.units) {
      for (const GraphTraffic& one : unit.traffic) {
        GraphTraffic& sum = add_to(sums, one);
        sum.calls += one.calls;
        sum.bytes += one.bytes;
      }
    }
    for (const GraphTraffic& sum : sums) {
      GraphTraffic& most = add_to(largest, sum);
      most.calls = std::max(most.calls, sum.calls);
      most.bytes = std::max(most.bytes, sum.bytes);
    }
  }
  return largest;
}

}  // namespace cohort
