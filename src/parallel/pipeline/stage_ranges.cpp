#include "parallel/pipeline/stage_ranges.hpp"

#include "config/pipeline.hpp"

namespace cohort::pipeline {

// Each layer that is left goes to the stage that is cheapest so far. That is the best there is: if some other division had a
// smaller largest cost, the stage with the largest cost here would have fewer layers there and another stage more. But when the
// first got its last layer the other was no cheaper, so with one more layer the other costs as much at least.
std::vector<LayerRange> stage_ranges(Count layers, int virtual_stages, const EndCosts& costs) {
  check_stages(layers, virtual_stages);
  const auto stages = static_cast<std::size_t>(virtual_stages);
  std::vector<Count> counts(stages, 1);
  const auto cost = [&](std::size_t stage) {
    const double first = stage == 0 ? costs.embedding : 0.0;
    const double last = stage + 1 == stages ? costs.head : 0.0;
    return static_cast<double>(counts[stage]) + first + last;
  };
  for (Count left = layers - virtual_stages; left > 0; --left) {
    std::size_t cheapest = stages - 1;
    for (std::size_t stage = stages; stage-- > 0;) {
      if (cost(stage) < cost(cheapest)) cheapest = stage;
    }
    ++counts[cheapest];
  }
  std::vector<LayerRange> ranges;
  Count next = 0;
  for (const Count count : counts) {
    ranges.push_back({next, next + count});
    next += count;
  }
  return ranges;
}

}  // namespace cohort::pipeline
