// peak_activations: that is what is left at the end
#include <cohort/lab08_pipelines.hpp>
#include <span>

int peak_activations(std::span<const PipelineAction> actions) {
  int now = 0;
  for (const PipelineAction& action : actions) {
    now += action.pass == PipelinePass::forward ? 1 : -1;
  }
  return now;
}
