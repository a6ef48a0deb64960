// balanced_stages: As many layers each are not as much work each
#include <cohort/lab08_pipelines.hpp>
#include <span>

void balanced_stages(std::span<const double> costs, std::span<std::size_t> ends) {
  for (std::size_t stage = 0; stage < ends.size(); ++stage) ends[stage] = (stage + 1) * costs.size() / ends.size();
}
