#include "parallel/zero/sharded.hpp"

#include <algorithm>

#include "tensor/convert.hpp"
#include "tensor/initial_values.hpp"

namespace cohort {

Sharded::Sharded(Model& model, Communicator& group, const ShardOptions& options)
    : DataParallel(model, group), options_(options), pool_("buffers.zero", model.storage().device), shards_(&group) {
  COHORT_CHECK(!model.parameters().flat_values().defined(), "the parameters of a model under ZeRO have memory already");
  const int ranks = options.shard_ranks == 0 ? group.size() : options.shard_ranks;
  COHORT_CHECK(group.size() % ranks == 0, "{} ranks are not a multiple of {} shards", group.size(), ranks);
  if (ranks < group.size()) {
    own_shards_ = group.split_by([&](int rank) { return rank / ranks; }, group.name() + ".shards");
    replicas_ = group.split_by([&](int rank) { return rank % ranks; }, group.name() + ".replicas");
    shards_ = own_shards_.get();
  }
  groups_ = make_shard_groups(model, options.wrap, shards_->rank(), ranks);
  of_units_ = groups_of_units(model, groups_);
  group_of_.resize(model.parameters().all().size());
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (const ShardGroup::Member& member : groups_[g].members) group_of_[member.parameter->index] = g;
    waiting_for_.push_back(groups_[g].members.size());
  }
}

std::vector<OwnedSegment> Sharded::owned() {
  std::vector<OwnedSegment> segments;
  for (const ShardGroup& group : groups_) segments.push_back(group.own);
  return segments;
}

void Sharded::make_values(ShardGroup& group, const Tensor& own_compute) {
  OwnedSegment& own = group.own;
  const DeviceKind device = model_.storage().device, place = options_.values_on_host ? DeviceKind::cpu : device;
  own.compute = own_compute;
  own.values = own_compute.dtype() == DType::f32 && own_compute.device() == place ? own_compute
               : options_.values_on_host ? Tensor::pinned("parameters.shard", {group.block})
                                         : Tensor::zeros("parameters.shard", {group.block}, DType::f32, device);
  // Drawn where the model is, so that they do not depend on what is offloaded: functions of two devices differ in the last bit.
  const Tensor initial = place == device ? own.values : Tensor::zeros("initial values", {group.block}, DType::f32, device);
  for (const OwnedPiece& piece : own.pieces)
    set_initial_values(initial.slice(piece.at, piece.at + piece.elements), *piece.parameter, piece.begin, options_.seed);
  if (place != device) own.values.copy_from(initial);
  own.values_changed();
}

void Sharded::grad_ready(Parameter& parameter) {
  const std::size_t g = group_of_[parameter.index];
  if (--waiting_for_[g] == 0) {
    waiting_for_[g] = groups_[g].members.size();
    group_ready(groups_[g]);
  }
  // MPI moves data only inside its calls: testing what is under way lets it overlap with backward.
  const auto scope = timers().scope(Phase::communication);
  for (Reduction& reduction : reductions_) reduction.request.test();
}

void Sharded::start_reduction(ShardGroup& group) {
  const auto scope = timers().scope(Phase::communication);
  Tensor whole = group.gradient;
  Tensor rounded;
  if (options_.reduction != DType::f32 && group_.size() > 1) {
    rounded = pool_.take(group.elements, options_.reduction);
    convert(rounded, whole);
    whole = rounded;
  }
  reductions_.push_back(
      {&group, rounded,
       shards_->reduce_scatter_async(whole.raw(), group.own_block(whole).raw(), group.block, whole.dtype(), ReduceOp::sum)});
}

void Sharded::finish_reduction() {
  const auto scope = timers().scope(Phase::communication);
  Reduction reduction = std::move(reductions_.front());
  reductions_.pop_front();
  ShardGroup& group = *reduction.group;
  reduction.request.wait();
  const Tensor summed = group.own_block(reduction.rounded.defined() ? reduction.rounded : group.gradient);
  if (replicas_) replicas_->all_reduce(summed.raw(), group.block, summed.dtype(), ReduceOp::sum);
  if (reduction.rounded.defined()) {
    convert(group.own_block(group.gradient), summed);
    pool_.give_back(reduction.rounded);
  }
  reduced(group);
}

Request Sharded::gather(const ShardGroup& group, const Tensor& compute, const Tensor& own) {
  return shards_->all_gather_async(own.raw(), compute.raw(), group.block, compute.dtype());
}

void Sharded::gather_beside_layers() {
  Bytes largest = 0;
  for (const ShardGroup& group : groups_) largest = std::max(largest, group.block * size_of(model_.storage().compute));
  shards_->gather_beside_products(largest);
}

void Sharded::gather_weights() {
  std::vector<Request> requests;
  for (const ShardGroup& group : groups_) requests.push_back(gather(group, group.compute, group.own.compute));
  for (Request& request : requests) request.wait();
}

const std::vector<std::size_t>& Sharded::groups_of(const Unit& unit) const {
  return of_units_[static_cast<std::size_t>(&unit - model_.units().data())];
}

}  // namespace cohort
