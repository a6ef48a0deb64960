// one_f_one_b_order: is not written
#include <algorithm>
#include <cohort/lab08_pipelines.hpp>
#include <span>

namespace {

PipelineAction forward(int micro_batch) { return {PipelinePass::forward, micro_batch}; }

PipelineAction backward(int micro_batch) { return {PipelinePass::backward, micro_batch}; }

}  // namespace

void one_f_one_b_order(int stages, int stage, int micro_batches, std::span<PipelineAction> actions) {
  const int ahead = std::min(stages - 1 - stage, micro_batches);
  auto next = actions.begin();
  for (int i = 0; i < ahead; ++i) *next++ = forward(i);
  for (int i = ahead; i < micro_batches; ++i) {
    *next++ = forward(i);
    *next++ = backward(i - ahead);
  }
}
