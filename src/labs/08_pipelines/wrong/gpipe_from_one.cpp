// gpipe_order: that of micro-batch 0 comes first
#include <cohort/lab08_pipelines.hpp>
#include <span>

namespace {

PipelineAction forward(int micro_batch) { return {PipelinePass::forward, micro_batch}; }

PipelineAction backward(int micro_batch) { return {PipelinePass::backward, micro_batch}; }

}  // namespace

void gpipe_order(int, int, int micro_batches, std::span<PipelineAction> actions) {
  auto next = actions.begin();
  for (int i = 0; i < micro_batches; ++i) *next++ = forward(i + 1);
  for (int i = 0; i < micro_batches; ++i) *next++ = backward(i + 1);
}
