#include "parallel/zero/zero3.hpp"

#include <algorithm>

namespace cohort {

Zero3::Zero3(Model& model, Communicator& group, const ShardOptions& options)
    : ShardedGradients(model, group, options), gathers_(groups_.size()) {
  const ModelStorage& storage = model.storage();
  for (ShardGroup& shard : groups_) {
    make_values(shard, options.compute_on_host
                           ? Tensor::pinned("parameters.compute", {shard.block}, storage.compute)
                           : Tensor::zeros("parameters.compute", {shard.block}, storage.compute, storage.device));
    make_gradients(shard);
  }
  gather_beside_layers();
  if (options.compute_on_host && storage.device == DeviceKind::gpu) fetches_.resize(groups_.size());
}

void Zero3::start_fetch(std::size_t g) {
  if (fetches_.empty() || fetches_[g].shard.defined() || groups_[g].compute.defined()) return;
  const Tensor& own = groups_[g].own.compute;
  Fetch& fetch = fetches_[g];
  fetch.shard = pool_.take(own.elements(), own.dtype());
  // The memory is somebody's who was done with it on the compute stream.
  fetch.there.record(gpu::compute_stream());
  fetch.there.order(gpu::copy_stream());
  gpu::copy_async(fetch.shard.raw(), own.raw(), own.bytes(), gpu::copy_stream());
  fetch.there.record(gpu::copy_stream());
}

void Zero3::start_fetches(std::size_t unit) {
  for (const std::size_t g : groups_of(model_.units()[unit])) start_fetch(g);
}

void Zero3::start_gather(std::size_t g) {
  ShardGroup& group = groups_[g];
  if (group.compute.defined()) return;  // there, or on its way
  start_fetch(g);
  if (!fetches_.empty()) fetches_[g].there.order(gpu::compute_stream());  // which a gather begins after
  group.attach_compute(pool_.take(group.elements, group.own.compute.dtype()));
  gathers_[g] = gather(group, group.compute, fetches_.empty() ? group.own.compute : fetches_[g].shard);
}

void Zero3::finish_gather(std::size_t g) {
  gathers_[g].wait();
  if (fetches_.empty() || !fetches_[g].shard.defined()) return;
  fetches_[g].there.order(gpu::compute_stream());  // it may have been fetched and never gathered
  pool_.give_back(fetches_[g].shard);
  fetches_[g].shard = {};
}

void Zero3::start_gathers(std::size_t unit) {
  for (const std::size_t g : groups_of(model_.units()[unit])) start_gather(g);
}

void Zero3::need(std::size_t unit) {
  start_gathers(unit);
  for (const std::size_t g : groups_of(model_.units()[unit])) finish_gather(g);
}

void Zero3::give_up_group(std::size_t g) {
  ShardGroup& group = groups_[g];
  finish_gather(g);
  if (!group.compute.defined()) return;
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
  if (place + 2 < model_.units().size()) start_fetches(place + 2);
}

void Zero3::post_forward(const Unit& unit) {
  const std::size_t place = place_of(unit);
  if (place + 1 < model_.units().size()) give_up(place, place + 1);
}

void Zero3::pre_backward(const Unit& unit) {
  const std::size_t place = place_of(unit);
  if (place + 1 < model_.units().size()) give_up(place + 1, place);
  need(place);
  const auto reads = [&](std::size_t at) { return model_.units()[at].backward_reads; };
  if (place > 0 && reads(place - 1)) start_gathers(place - 1);
  if (place > 1 && reads(place - 2)) start_fetches(place - 2);
}

void Zero3::end_pass() {
  for (std::size_t g = 0; g < groups_.size(); ++g) give_up_group(g);
  ShardedGradients::end_pass();
}

}  // namespace cohort
