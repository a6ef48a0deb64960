#include "parallel/data/data_parallel.hpp"

#include "parallel/data/layer_spans.hpp"

namespace cohort {

void DataParallel::accumulate_gradients(const StepContext& context, std::span<const ModelInput> micro_batches,
                                        float gradient_scale, StepTimers& timers) {
  timers_ = &timers;
  begin_gradients();
  if (runner_ != nullptr) {
    runner_->run(context, micro_batches, gradient_scale, *this, timers);
    finish_gradients(timers);
    runner_->finish(*this, timers);
    return;
  }
  for (std::size_t i = 0; i < micro_batches.size(); ++i) {
    last_micro_batch_ = i + 1 == micro_batches.size();
    micro_batch_ = static_cast<int>(i);
    run_micro_batch(context, micro_batches[i], gradient_scale, timers);
  }
  finish_gradients(timers);
}

void DataParallel::run_micro_batch(const StepContext& context, const ModelInput& input, float gradient_scale,
                                   StepTimers& timers) {
  run_through(model_, context, input, gradient_scale, timers);
}

void DataParallel::run_through(Model& model, const StepContext& context, const ModelInput& input, float gradient_scale,
                               StepTimers& timers) {
  const Arena::Scope activations(*context.activations);
  LayerSpans hooks(*this);
  {
    const auto scope = timers.scope(Phase::forward);
    const TraceScope span(TraceSpan::Kind::micro_batch, "forward", micro_batch_);
    model.forward(context, input, gradient_scale, hooks);
  }
  const auto scope = timers.scope(Phase::backward);
  const TraceScope span(TraceSpan::Kind::micro_batch, "backward", micro_batch_);
  model.backward(context, input, hooks);
}

}  // namespace cohort
