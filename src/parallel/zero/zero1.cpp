#include "parallel/zero/zero1.hpp"

namespace cohort {

Zero1::Zero1(Model& model, Communicator& group, const ShardOptions& options) : Sharded(model, group, options) {
  const ModelStorage& storage = model.storage();
  for (ShardGroup& shard : groups_) {
    shard.attach_compute(Tensor::zeros("parameters.compute", {shard.elements}, storage.compute, storage.device));
    shard.attach_gradient(Tensor::zeros("gradients.whole", {shard.elements}, DType::f32, storage.device));
    make_values(shard, shard.own_block(shard.compute));
    shard.own.gradients = shard.own_block(shard.gradient);
  }
  gather_weights();
}

void Zero1::begin_gradients() {
  for (const ShardGroup& group : groups_) group.gradient.zero();
}

void Zero1::grad_ready(Parameter& parameter) {
  if (last_micro_batch()) Sharded::grad_ready(parameter);  // before, more will be added
}

void Zero1::finish_gradients(StepTimers&) {
  while (reducing()) finish_reduction();
}

}  // namespace cohort
