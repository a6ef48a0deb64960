#include "parallel/data/manual.hpp"

#include "ops/pointwise.hpp"

namespace cohort {

Manual::Manual(Model& model, Communicator& group, std::unique_ptr<Model> replica)
    : DataParallel(model, group), replica_(std::move(replica)) {
  if (group.size() != 1)
    fail(ExitCode::config, "parallel.data = \"manual\" keeps its two replicas in one rank, not {}: start it without mpirun",
         group.size());
  weights_changed();
}

void Manual::weights_changed() {
  replica_->parameters().flat_values().copy_from(model_.parameters().flat_values());
  if (const Tensor& frozen = model_.parameters().flat_frozen_values(); frozen.defined())
    replica_->parameters().flat_frozen_values().copy_from(frozen);
  replica_->parameters().values_changed();
}

void Manual::run_micro_batch(const StepContext& context, const ModelInput& input, float gradient_scale, StepTimers& timers) {
  COHORT_CHECK(input.samples % 2 == 0, "manual splits a micro-batch of {} samples in two", input.samples);
  for (int half = 0; half < 2; ++half) {
    const ModelInput part = input.slice(half * input.samples / 2, (half + 1) * input.samples / 2);
    run_through(half == 0 ? model_ : *replica_, context, part, gradient_scale, timers);
  }
}

void Manual::finish_gradients(StepTimers& timers) {
  const auto scope = timers.scope(Phase::communication);
  const Tensor& sum = model_.parameters().flat_gradients();
  ops::add(ops::Exec{sum.device()}, sum, sum, replica_->parameters().flat_gradients());
  replica_->parameters().zero_gradients();
}

}  // namespace cohort
