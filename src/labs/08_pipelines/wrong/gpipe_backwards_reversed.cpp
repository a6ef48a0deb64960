// gpipe_order: in ascending order
#include <cohort/lab08_pipelines.hpp>
#include <span>

namespace {

PipelineAction forward(int micro_batch) { return {PipelinePass::forward, micro_batch}; }

PipelineAction backward(int micro_batch) { return {PipelinePass::backward, micro_batch}; }

}  // namespace

// As a stack: last in, first out.
void gpipe_order(int, int, int micro_batches, std::span<PipelineAction> actions) {
  auto next = actions.begin();
  for (int i = 0; i < micro_batches; ++i) *next++ = forward(i);
  for (int i = 0; i < micro_batches; ++i) *next++ = backward(micro_batches - 1 - i);
}
