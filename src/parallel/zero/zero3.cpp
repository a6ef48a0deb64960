#include "parallel/zero/zero3.hpp"

#include <algorithm>

namespace cohort {

Zero3::Zero3(Model& model, Communicator& group, const ShardOptions& options)
    : ShardedGradients(model, group, options), gathers_(groups_.size()) {
  const Placement& placement = model.placement();
  for (ShardGroup& shard : groups_) {
    make_values(shard, Tensor::zeros("zero.compute", {shard.block}, placement.compute, placement.device));
    make_gradients(shard);
  }
}

void Zero3::start_gather(std::size_t g) {
  ShardGroup& group = groups_[g];
  if (group.compute.defined()) return;  // there, or on its way
  group.attach_compute(pool_.take(group.elements, group.own.compute.dtype()));
  gathers_[g] = gather(group, group.compute, group.own.compute);
}

void Zero3::start_gathers(std::size_t unit) {
  for (const std::size_t g : groups_of(model_.units()[unit])) start_gather(g);
}

void Zero3::need(std::size_t unit) {
  start_gathers(unit);
  for (const std::size_t g : groups_of(model_.units()[unit])) gathers_[g].wait();
}

void Zero3::give_up_group(std::size_t g) {
  ShardGroup& group = groups_[g];
  if (!group.compute.defined()) return;
  gathers_[g].wait();
  pool_.give_back(group.compute);
  group.attach_compute({});
}

void Zero3::give_up(std::size_t unit, std::size_t next) {
  const std::vector<std::size_t>& still = groups_of(model_.units()[next]);
  for (const std::size_t g : groups_of(model_.units()[unit])) {
    if (std::find(still.begin(), still.end(), g) == still.end()) give_up_group(g);
  }
}

void Zero3::pre_forward(const Unit& unit) {
  const std::size_t place = place_of(unit);
  need(place);
  if (place + 1 < model_.units().size()) start_gathers(place + 1);
}

void Zero3::post_forward(const Unit& unit) {
  const std::size_t place = place_of(unit);
  if (place + 1 < model_.units().size()) give_up(place, place + 1);
}

void Zero3::pre_backward(const Unit& unit) {
  const std::size_t place = place_of(unit);
  if (place + 1 < model_.units().size()) give_up(place + 1, place);
  need(place);
  if (place > 0 && model_.units()[place - 1].backward_reads) start_gathers(place - 1);
}

void Zero3::end_pass() {
  for (std::size_t g = 0; g < groups_.size(); ++g) give_up_group(g);
  ShardedGradients::end_pass();
}

}  // namespace cohort
