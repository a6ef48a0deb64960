#include "train/proof_steps.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.hpp"
#include "checkpoint/format/format.hpp"
#include "comm/consensus.hpp"
#include "comm/self_communicator.hpp"
#include "train/precision.hpp"
#include "train/proof.hpp"

namespace cohort {
namespace {

constexpr int kReferenceRank = 0;

void overwrite(const std::vector<StateShard>& whole, const WholeTensors& tensors) {
  for (const StateShard& shard : whole) {
    const std::span<const float> values = tensors.at(shard.tensor);
    shard.elements.overwrite([&](std::span<float> into) { std::copy(values.begin(), values.end(), into.begin()); });
  }
}

double norm_of(const WholeTensors& gradients, double loss_scale) {
  double squares = 0.0;
  for (const float value : gradients.elements) squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares) / loss_scale;
}

}  // namespace

ProofRun::ProofRun(const RunConfig& config, const RunData& data, Communicator& group)
    : config_(config),
      mesh_(group, mesh_shape_of(config_.parallel), device_of(config_), config_.device.share),
      train_step_(config_, mesh_),
      sampler_(sampler_of(config_, *data.dataset)),
      batches_(*data.dataset, sampler_, config_.train,
               BatchShare::of(mesh_, train_step_.ring() ? &train_step_.ring()->split() : nullptr), train_step_.device()) {
  if (!config_.run.initial_checkpoint.empty()) train_step_.load_weights(config_.run.initial_checkpoint);
}

StepInput ProofRun::load(Count step) {
  timers_.begin_step();
  batches_.load(step);
  const Count targets = all_reduce_value(mesh_.host_gradient(), batches_.valid_targets(), ReduceOp::sum);
  return {step, batches_.inputs(), batches_.valid_targets(), targets};
}

std::vector<StateShard> ProofRun::weights() const {
  std::vector<StateShard> weights = train_step_.shards();
  std::erase_if(weights, [](const StateShard& shard) { return !shard.tensor.starts_with(kModelGroup); });
  return weights;
}

OneRankBeside::OneRankBeside(const RunConfig& run, const RunData& data, Communicator& group) : group_(group) {
  std::string names;
  fail_together(group_, "making the reference on one rank", [&] {
    if (group_.rank() != kReferenceRank) return;
    self_ = make_self_communicator("one rank");
    run_ = std::make_unique<ProofRun>(reference_config(run), data, *self_);
    for (const StateShard& shard : run_->weights()) names += fmt::format("{} {}\n", shard.tensor, shard.elements.elements());
  });
  std::size_t all = 0;
  for (const std::string& line : split(broadcast_text(group_, names, kReferenceRank), '\n')) {
    const std::size_t space = line.rfind(' ');
    const std::size_t elements = std::stoull(line.substr(space + 1));
    zeros_.places[line.substr(0, space)] = {all, elements};
    all += elements;
  }
  zeros_.elements.resize(all);
}

WholeTensors OneRankBeside::copy_of(const std::vector<StateShard>& whole) const {
  WholeTensors tensors = zeros_;
  for (const StateShard& shard : whole) {
    const Tensor host = shard.elements.to_host();
    std::copy_n(host.f32(), host.elements(), tensors.at(shard.tensor).begin());
  }
  return tensors;
}

// Of the ranks that hold an element one gives it, the others zero: the sum is the element, bit for bit, also if it is not finite.
WholeTensors OneRankBeside::gather(const std::vector<StateShard>& shards) const {
  WholeTensors whole = zeros_;
  for (const StateShard& shard : shards) {
    if (!shard.writes) continue;
    const Tensor host = shard.elements.to_host();
    float* const values = whole.at(shard.tensor).data();
    for_each_run(shard.part, [&](Count i, Count at, Count n) { std::copy_n(host.f32() + i, n, values + at); });
  }
  group_.all_reduce(whole.elements.data(), static_cast<Count>(whole.elements.size()), DType::f32, ReduceOp::sum);
  return whole;
}

OneRankStep OneRankBeside::step(Count step, const ProofRun& layout, bool layout_skipped) {
  const WholeTensors own_gradients = gather(layout.gradients()), own_weights = gather(layout.weights());
  OneRankStep result;
  fail_together(group_, "running the reference on one rank", [&] {
    if (!run_) return;
    TrainStep& one_rank = run_->train_step();
    const double loss_scale = one_rank.loss_scale().scale();
    one_rank.compute_gradients(run_->load(step), run_->timers());
    result.gradients = copy_of(run_->gradients());
    result.norm = norm_of(result.gradients, loss_scale);
    if (!layout_skipped) overwrite(run_->gradients(), own_gradients);
    one_rank.update(run_->timers());
    result.loss = one_rank.finish_step(run_->timers()).loss;
    result.skipped = !std::isfinite(result.loss) || !std::isfinite(result.norm);
    result.weights = copy_of(run_->weights());
    overwrite(run_->weights(), own_weights);  // where the next step begins
    one_rank.shards_changed();
  });
  std::array<double, 3> numbers{result.loss, result.norm, result.skipped ? 1.0 : 0.0};
  broadcast(group_, std::span<double>(numbers), kReferenceRank);
  result.loss = numbers[0];
  result.norm = numbers[1];
  result.skipped = numbers[2] != 0.0;
  for (WholeTensors* tensors : {&result.gradients, &result.weights}) {
    if (!run_) *tensors = zeros_;
    broadcast(group_, std::span<float>(tensors->elements), kReferenceRank);
  }
  return result;
}

}  // namespace cohort
