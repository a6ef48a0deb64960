// one_f_one_b_order: deadlock of the pipeline schedule
#include <algorithm>
#include <cohort/lab08_pipelines.hpp>
#include <span>

namespace {

PipelineAction forward(int micro_batch) { return {PipelinePass::forward, micro_batch}; }

PipelineAction backward(int micro_batch) { return {PipelinePass::backward, micro_batch}; }

}  // namespace

// The last stages warm up, where the first should.
void one_f_one_b_order(int stages, int stage, int micro_batches, std::span<PipelineAction> actions) {
  (void)stages;
  const int ahead = std::min(stage, micro_batches);
  auto next = actions.begin();
  for (int i = 0; i < ahead; ++i) *next++ = forward(i);
  for (int i = ahead; i < micro_batches; ++i) {
    *next++ = forward(i);
    *next++ = backward(i - ahead);
  }
  for (int i = micro_batches - ahead; i < micro_batches; ++i) *next++ = backward(i);
}
