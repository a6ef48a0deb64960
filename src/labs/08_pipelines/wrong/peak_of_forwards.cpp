// peak_activations: backwards free room
#include <cohort/lab08_pipelines.hpp>
#include <span>

int peak_activations(std::span<const PipelineAction> actions) {
  int forwards = 0;
  for (const PipelineAction& action : actions) forwards += action.pass == PipelinePass::forward ? 1 : 0;
  return forwards;
}
