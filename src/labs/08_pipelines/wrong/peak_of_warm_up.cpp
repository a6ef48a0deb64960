// peak_activations: more come into flight after the first backward
#include <cohort/lab08_pipelines.hpp>
#include <span>

// As if nothing came after the warm-up.
int peak_activations(std::span<const PipelineAction> actions) {
  int ahead = 0;
  for (const PipelineAction& action : actions) {
    if (action.pass == PipelinePass::backward) break;
    ++ahead;
  }
  return ahead;
}
