// balanced_stages: with other cuts no stage costs more than
#include <cohort/lab08_pipelines.hpp>
#include <span>

// Fills each stage until it has its share.
void balanced_stages(std::span<const double> costs, std::span<std::size_t> ends) {
  double sum = 0.0;
  for (const double cost : costs) sum += cost;
  const double average = sum / static_cast<double>(ends.size());
  std::size_t layer = 0;
  for (std::size_t stage = 0; stage < ends.size(); ++stage) {
    const std::size_t behind = ends.size() - 1 - stage;
    double cost = costs[layer++];
    while (layer + behind < costs.size() && cost < average) cost += costs[layer++];
    ends[stage] = behind == 0 ? costs.size() : layer;
  }
}
