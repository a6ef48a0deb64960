#include "train/train_step.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/counting.hpp"
#include "base/text.hpp"
#include "checkpoint/format/format.hpp"
#include "checkpoint/load/collective.hpp"
#include "comm/consensus.hpp"
#include "comm/nccl_communicator.hpp"
#include "config/model_rules.hpp"
#include "config/pipeline.hpp"
#include "config/rate_scaling.hpp"
#include "gpu/device.hpp"
#include "observe/flight_recorder.hpp"
#include "ops/gemm.hpp"
#include "ops/linear.hpp"
#include "optim/clip.hpp"
#include "optim/offloaded_optimizer.hpp"
#include "optim/resident_optimizer.hpp"
#include "optim/schedule.hpp"
#include "parallel/strategy.hpp"
#include "train/counted_step.hpp"
#include "train/estimate.hpp"
#include "train/matrix_holders.hpp"
#include "train/model_of_rank.hpp"
#include "train/nonfinite.hpp"
#include "train/precision.hpp"
#include "train/resume.hpp"

namespace cohort {
namespace {

// Arithmetic may make a NaN with a sign, which texts would show as "-nan".
double without_sign_of_nan(double number) { return std::isnan(number) ? std::numeric_limits<double>::quiet_NaN() : number; }

double mean(double sum, Count count) { return count > 0 ? without_sign_of_nan(sum / static_cast<double>(count)) : 0.0; }

LossScale loss_scale_of(const RunConfig& config) {
  const PrecisionSection& precision = config.precision;
  if (precision.policy != "fp16") return LossScale::none();
  return LossScale(
      {.initial = precision.loss_scale, .minimum = precision.min_loss_scale, .growth_interval = precision.loss_scale_interval});
}

std::unique_ptr<Optimizer> make_offloaded(const RunConfig& config, std::vector<OwnedSegment> owned, int rank) {
  OffloadOptions options;
  options.poll = check_nccl_progress;
  if (const std::string& folder = config.parallel.offload_directory; !folder.empty())
    options.file = std::filesystem::path(folder) / fmt::format("{}.rank{}.moments", config.run.name, rank);
  return std::make_unique<OffloadedOptimizer>(std::move(owned), config.optimizer, options);
}

using Inspect = std::function<void(const std::string&, const Tensor&)>;

// NaN in one element is enough: norms, products and the loss spread it. Of each unit, since relu makes 0 of NaN.
void poison(const std::string&, const Tensor& output) {
  const Tensor nan = Tensor::zeros("poison", {1}, output.dtype());
  std::memset(nan.raw(), 0xff, static_cast<std::size_t>(nan.bytes()));  // a NaN in fp32, bf16 and fp16
  Tensor::wrap(output.raw(), {1}, output.dtype(), output.device()).copy_from(nan);
}

// Both, one after the other.
Inspect joined(const Inspect& first, const Inspect& second) {
  if (!first || !second) return first ? first : second;
  return [first, second](const std::string& unit, const Tensor& output) {
    first(unit, output);
    second(unit, output);
  };
}

}  // namespace

MeshShape mesh_shape_of(const ParallelSection& config) { return MeshShape(config.dp, config.pp, config.cp, config.tp); }

TrainStep::TrainStep(const RunConfig& config, const Mesh& mesh, const StepParts& parts)
    : config_(config),
      mesh_(mesh),
      group_(mesh.gradient()),
      keeps_tuning_(!config.device.gemm_tuning.empty() && mesh.world().rank() == 0),
      exec_(exec_of(config)),
      activations_("activations", exec_.device),
      scalars_(exec_.device),
      loss_scale_(loss_scale_of(config)) {
  StepArenas arenas;
  if (!counting()) arenas = set_up_device();
  if (mesh.size(Axis::cp) > 1) ring_ = std::make_unique<RingAttention>(mesh.axis(Axis::cp), config.model.context);
  if (config.model.activation_offload) offload_ = std::make_unique<ActivationOffload>(exec_.device);
  build_model(parts);
  strategy_ = parts.strategy
                  ? parts.strategy(*model_, group_)
                  : make_data_parallel(config.parallel, config.model, config.run.seed, *model_, group_, reduction_of(config));
  build_pipeline(parts);
  build_optimizer();
  if (exec_.gpu() && !counting() && !parts.engine) reserve(arenas);  // not what was counted: its arenas grow
}

void TrainStep::build_optimizer() {
  if (config_.parallel.offload != "none") {
    optimizer_ = make_offloaded(config_, strategy_->owned(), mesh_.world().rank());
    return;
  }
  MatrixHolders holders;
  if (const int count = matrix_holders(config_); count > 1) {
    const ParameterGroups groups(config_.optimizer);
    holders = {group_of_holders(strategy_->shard_group(), count), held_matrices(config_, mesh_.index(Axis::pp), groups)};
  }
  optimizer_ = std::make_unique<ResidentOptimizer>(strategy_->owned(), config_.optimizer, std::move(holders));
}

// The ranks that hold the model of this stage between them: those of the tensor-parallel groups that share one copy of it.
Communicator* TrainStep::group_of_holders(Communicator* shards, int count) {
  if (count == mesh_.size(Axis::tp)) return &mesh_.axis(Axis::tp);
  if (mesh_.size(Axis::tp) == 1) return shards;
  const int copies = replica().count, shards_of_copy = group_.size() / copies;
  const auto copy_of_stage = [&](int rank) {
    const AxisValues at = mesh_.shape().coordinates_of(rank);
    return at[Axis::pp] * copies + (at[Axis::dp] * mesh_.size(Axis::cp) + at[Axis::cp]) / shards_of_copy;
  };
  holders_ = mesh_.split(copy_of_stage, "holders");
  return &holders_.tensors();
}

StepArenas TrainStep::set_up_device() const {
  if (exec_.gpu()) set_collective_timeout(config_.device.collective_timeout);
  const CountedStep counted = count_step_that_fits(config_, mesh_.index(Axis::pp), mesh_.world());
  if (!exec_.gpu()) {
    ops::set_gemm_threads(static_cast<int>(config_.device.threads));
    return {};
  }
  if (!config_.device.gemm_tuning.empty()) ops::start_gemm_tuning(config_.device.gemm_tuning);
  return counted.arenas;
}

void TrainStep::build_model(const StepParts& parts) {
  if (mesh_.size(Axis::tp) > 1 && parts.tensor_parallel == nullptr)
    tensor_parallel_ =
        std::make_unique<TensorParallelGroup>(mesh_.axis(Axis::tp), config_.parallel.sequence, config_.parallel.tensor_overlap);
  TensorParallel& own = tensor_parallel_ ? *tensor_parallel_ : TensorParallel::none();
  TensorParallel& part = parts.tensor_parallel != nullptr ? *parts.tensor_parallel : own;
  model_ = parts.declare_model ? parts.declare_model(part) : declare_model_of_rank(config_, mesh_.index(Axis::pp), part);
  ParameterRegistry& parameters = model_->parameters();
  if (is_sharded(config_.parallel.data)) {
    parameters.allocate_frozen(config_.run.seed, storage_of(config_));
  } else {
    parameters.allocate(config_.run.seed, storage_of(config_));
  }
  const auto check_trained = [&] {
    if (parameters.trained().empty())
      fail(ExitCode::config, "lora.targets = \"{}\" leaves pipeline stage {} without adapters, and so with nothing to train",
           config_.model.lora.targets, mesh_.index(Axis::pp));
  };
  if (counting()) {
    check_trained();
  } else {  // some stages may have adapters, others none
    fail_together(mesh_.world(), "building the model", check_trained);
  }
}

void TrainStep::build_pipeline(const StepParts& parts) {
  if (mesh_.size(Axis::pp) == 1 && !parts.engine) return;
  auto& decoder = dynamic_cast<Decoder&>(*model_);
  const pipeline::Schedule schedule = schedule_of(config_.parallel, config_.train.accumulation);
  Communicator& stages = mesh_.axis(Axis::pp);
  Communicator& host_stages = mesh_.host_axis(Axis::pp);
  pipeline_ = parts.engine ? parts.engine(decoder, schedule, stages, host_stages)
                           : std::make_unique<pipeline::Engine>(decoder, schedule, stages, host_stages);
  pipeline_->reserve_messages(config_.train.micro_batch * config_.model.context / config_.parallel.cp);
  strategy_->use(*pipeline_);
}

void TrainStep::reserve(const StepArenas& arenas) {
  activations_.reserve(arenas.step + kArenaReserve);
  if (offload_) offload_->reserve(arenas.offload);
  if (!pipeline_) return;
  std::vector<Bytes> under_way = arenas.under_way;
  for (Bytes& bytes : under_way) bytes += kArenaReserve;
  pipeline_->reserve(under_way);
}

StepArenas TrainStep::held_arenas() const {
  return {activations_.peak_bytes(), pipeline_ ? pipeline_->held_peak_bytes() : std::vector<Bytes>{},
          offload_ ? offload_->held() : ActivationOffload::Memory{}};
}

void TrainStep::sum_over(Axis axis, const Tensor& scalar) const {
  if (mesh_.size(axis) > 1) mesh_.axis(axis).all_reduce(scalar.raw(), 1, DType::f64, ReduceOp::sum);
}

std::vector<StateShard> TrainStep::shards() const {
  std::vector<OwnedSegment> segments;
  std::vector<std::vector<SegmentSlot>> slots;
  for (std::size_t r = 0; r < optimizer_->runs().size(); ++r) {
    const Optimizer::Run& run = optimizer_->runs()[r];
    segments.push_back(run.segment);
    const std::vector<StateElements> elements = optimizer_->slots(r);
    std::vector<SegmentSlot>& named = slots.emplace_back();
    for (std::size_t s = 0; s < elements.size(); ++s) named.push_back({run.slots()[s].name, elements[s]});
  }
  std::vector<StateShard> all = shards_of(segments, slots, replica());
  const std::vector<StateShard> frozen = frozen_shards();
  all.insert(all.end(), frozen.begin(), frozen.end());
  return all;
}

// All ranks with the same weights have them whole.
std::vector<StateShard> TrainStep::frozen_shards() const {
  const OwnedSegment frozen = frozen_of(model_->parameters());
  if (frozen.pieces.empty()) return {};
  return shards_of({frozen}, {}, {group_.rank(), group_.size()});
}

// Ranks that share a model between them write their shards; replicas share the writing.
Replica TrainStep::replica() const {
  const Communicator* const shard_group = strategy_->shard_group();
  const int holders = shard_group != nullptr ? shard_group->size() : 1;
  return {group_.rank() / holders, group_.size() / holders};
}

std::vector<StateShard> TrainStep::gradient_shards() const {
  std::vector<OwnedSegment> owned = optimizer_->owned();
  for (OwnedSegment& segment : owned) segment.values = segment.gradients;
  return shards_of(owned, {}, replica());
}

void TrainStep::load_weights(const std::filesystem::path& checkpoint) {
  const TrainingState state = read_training_state_collectively(mesh_.world(), checkpoint);
  ModelSection base = config_.model;
  base.lora = {};
  const bool starts_adapters = config_.model.lora.rank > 0 && state.model == describe_model(base);
  std::vector<StateShard> weights = starts_adapters ? frozen_shards() : shards();
  std::erase_if(weights, [](const StateShard& shard) { return !shard.tensor.starts_with(kModelGroup); });
  load_shards(mesh_.world(), checkpoint, weights, describe_model(starts_adapters ? base : config_.model));
  shards_changed();
}

void TrainStep::shards_changed() {
  for (const OwnedSegment& segment : optimizer_->owned()) segment.values_changed();
  frozen_of(model_->parameters()).values_changed();
  strategy_->weights_changed();
}

StepContext TrainStep::context(Count step) const {
  return {.exec = exec_,
          .dtype = model_->storage().compute,
          .activations = &activations_,
          .offload = offload_.get(),
          .loss_sum = scalars_.own_loss(),
          .training = true,
          .seed = config_.run.seed,
          .step = static_cast<std::uint32_t>(step),
          .sequence = ring_.get(),
          .inspect = joined(running_.poisoned ? poison : Inspect{}, running_.inspect),
          .heartbeat = FlightRecorder::heartbeat_of_process};
}

void TrainStep::compute_gradients(const StepInput& input, StepTimers& timers) {
  running_ = input;
  forget_stalled_seconds();  // those of a validation
  scalars_.begin();
  strategy_->accumulate_gradients(context(input.step), input.micro_batches,
                                  static_cast<float>(mean(loss_scale_.scale(), input.global_valid_targets)), timers);
  const auto scope = timers.scope(Phase::communication);
  sum_over(Axis::pp, scalars_.own_loss());  // the last stage has it
  scalars_.loss().copy_from(scalars_.own_loss());
  group_.all_reduce(scalars_.loss().raw(), 1, DType::f64, ReduceOp::sum);
}

void TrainStep::update(StepTimers& timers) {
  const auto scope = timers.scope(Phase::optimizer);
  add_squares(exec_, optimizer_->owned(), scalars_);
  if (Communicator* shards = strategy_->shard_group()) shards->all_reduce(scalars_.squares().raw(), 1, DType::f64, ReduceOp::sum);
  sum_over(Axis::tp, scalars_.squares());
  sum_over(Axis::pp, scalars_.squares());
  decide_update(exec_, scalars_, loss_scale_.scale(), config_.train.clip_norm);
  const Count step = running_.step;
  optimizer_->step(exec_, learning_rate(config_.schedule, peak_learning_rate(config_), step), scalars_.decisions(), step);
  strategy_->weights_changed();
  scalars_.fetch();
}

StepResult TrainStep::finish_step(StepTimers& timers) {
  if (exec_.gpu()) {
    const auto scope = timers.scope(Phase::device);
    gpu::synchronize(check_nccl_progress);
  }
  if (exec_.gpu()) {
    if (const auto stalled = take_stalled_seconds()) timers.set_exposed(*stalled);
  }
  if (keeps_tuning_) {  // one step has made every kind of product
    ops::save_gemm_tuning(config_.device.gemm_tuning);
    keeps_tuning_ = false;
  }
  running_.inspect = {};  // whoever looks for a fault later runs units again
  const StepScalars::Values& values = scalars_.values();
  StepResult result;
  result.loss = mean(values.loss, running_.global_valid_targets);
  result.own_loss = mean(values.own_loss, running_.own_valid_targets);
  result.gradient_norm = without_sign_of_nan(values.norm);
  result.learning_rate = learning_rate(config_.schedule, peak_learning_rate(config_), running_.step);
  result.valid_targets = running_.global_valid_targets;
  result.skipped = values.decisions.skip != 0;
  result.at_floor = !loss_scale_.update(result.skipped);
  return result;
}

StepResult TrainStep::run(const StepInput& input, StepTimers& timers) {
  start_step(input, timers);
  const StepResult result = finish_step(timers);
  if (result.at_floor) throw SharedError(ExitCode::training, loss_scale_.at_minimum_in_words());
  return result;
}

std::string TrainStep::first_unit_not_finite(std::span<const ModelInput> micro_batches) {
  StepContext with_inspection = context(running_.step);
  FirstNotFinite search;
  with_inspection.inspect = joined(with_inspection.inspect, search.inspector());
  for (const ModelInput& input : micro_batches) {
    const Arena::Scope forgotten(activations_);
    predictor().loss(with_inspection, input, *strategy_);  // with dropout, which may be what overflowed: context.training
  }
  return search.unit();
}

std::string TrainStep::gradient_not_finite() const {
  const std::vector<StateShard> gradients = gradient_shards();
  const auto found = std::find_if(gradients.rbegin(), gradients.rend(), [](const StateShard& shard) {
    return shard.tensor.starts_with(kModelGroup) && !all_finite(shard.elements.to_host());
  });
  if (found == gradients.rend()) return "";
  std::string name = found->tensor.substr(kModelGroup.size());
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

}  // namespace cohort
