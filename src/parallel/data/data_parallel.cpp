#include "parallel/data/data_parallel.hpp"

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
    run_micro_batch(context, micro_batches[i], gradient_scale, timers);
  }
  finish_gradients(timers);
}

void DataParallel::run_micro_batch(const StepContext& context, const ModelInput& input, float gradient_scale,
                                   StepTimers& timers) {
  const Arena::Scope activations(*context.activations);
  {
    const auto scope = timers.scope(Phase::forward);
    model_.forward(context, input, gradient_scale, *this);
  }
  const auto scope = timers.scope(Phase::backward);
  model_.backward(context, input, *this);
}

}  // namespace cohort
