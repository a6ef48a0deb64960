#include "train/estimate.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/text.hpp"
#include "config/model_rules.hpp"
#include "config/pipeline.hpp"
#include "gpu/device.hpp"
#include "optim/offloaded_optimizer.hpp"
#include "parallel/context/ring_attention.hpp"
#include "parallel/data/data_parallel.hpp"
#include "parallel/pipeline/engine.hpp"
#include "parallel/pipeline/stages.hpp"
#include "parallel/zero/pass_plan.hpp"
#include "train/check_optimizer.hpp"
#include "train/model_of_rank.hpp"
#include "train/optimizer_memory.hpp"
#include "train/precision.hpp"

namespace cohort {
namespace {

// Moves what parallel.offload keeps elsewhere out of a rank's memory, of which `owned` elements are its own, in groups of
// `largest` at most. The optimizer's slots are all that it has.
void offload(const RunConfig& config, Count owned, Count largest, MemoryEstimate& memory) {
  const ParallelSection& parallel = config.parallel;
  if (parallel.offload == "none") return;
  const bool in_file = !parallel.offload_directory.empty(), cuda = config.device.kind == "cuda";
  const DType compute = placement_of(config).compute;
  const bool narrow = compute != DType::f32;
  const Bytes values = owned * size_of(DType::f32), copies = owned * size_of(compute);
  const Bytes lanes = static_cast<Bytes>(kLanes) * std::min(largest, kOffloadBlock);
  (in_file ? memory.disk : memory.host) += memory.optimizer;
  memory.optimizer = 0;
  (cuda ? memory.host : memory.optimizer) += in_file ? lanes * most_slot_bytes(config.optimizer) : 0;
  if (!cuda) return;
  if (narrow) memory.parameters -= values;
  memory.host += values + lanes * size_of(DType::f32);  // and the gradients of the blocks at work
  if (parallel.offload == "parameters") {
    memory.parameters -= copies;
    memory.host += narrow ? copies : 0;
  } else if (narrow) {
    memory.host += lanes * size_of(compute);
  }
}

// Weights, gradients and optimizer state under ZeRO: what is whole, what is a shard, and the buffers that come and go.
MemoryEstimate sharded_state(const RunConfig& config, int stage_number, const Model& model) {
  const Placement placement = placement_of(config);
  const Count all = config.parallel.dp * config.parallel.cp;
  const Count ranks = config.parallel.shard_ranks == 0 ? all : config.parallel.shard_ranks;
  const bool narrow = placement.compute != DType::f32;
  const std::string& stage = config.parallel.data;
  MemoryEstimate memory;
  Count owned = 0, largest = 0;
  std::map<Count, Count> of_size;  // groups, by their elements
  const std::vector<ShardGroup> groups = make_shard_groups(model, config.parallel.wrap, 0, static_cast<int>(ranks));
  for (const ShardGroup& group : groups) {
    const Bytes whole_compute = group.elements * size_of(placement.compute), shard = group.block * size_of(DType::f32);
    if (stage == "zero3") {
      memory.parameters += shard + (narrow ? group.block * size_of(placement.compute) : 0);
    } else {
      memory.parameters += whole_compute + (narrow ? shard : 0);
    }
    memory.gradients += stage == "zero1" ? group.elements * size_of(DType::f32) : shard;
    owned += group.block;
    largest = std::max(largest, group.block);
    ++of_size[group.elements];
  }
  const OptimizerMemory optimizer = optimizer_memory(config, stage_number, model, groups);
  memory.optimizer = optimizer.slots + optimizer.matrices;
  memory.buffers = plan_pass(model, groups, stage, placement.compute, all > 1 ? reduction_of(config) : DType::f32).buffers;
  if (config.parallel.offload == "parameters") {
    // Shards that come in from the host: of the unit that is gathered, and of the one after it.
    constexpr Count kFetched = 2;
    for (const auto& [elements, of_this_size] : of_size)
      memory.buffers += std::min(of_this_size, kFetched) * elements / ranks * size_of(placement.compute);
  }
  offload(config, owned, largest, memory);
  return memory;
}

MemoryEstimate whole_state(const RunConfig& config, int stage, const Model& model) {
  const Placement placement = placement_of(config);
  const Count elements = model.parameters().flat_elements();
  const Bytes each = elements * size_of(DType::f32);
  const Bytes copy = placement.compute == DType::f32 ? 0 : elements * size_of(placement.compute);
  MemoryEstimate memory;
  memory.parameters = each + copy;
  memory.gradients = each;
  if (reduction_of(config) != DType::f32 && config.parallel.dp * config.parallel.cp > 1) memory.gradients += copy;
  const OptimizerMemory optimizer = optimizer_memory(config, stage, model, {});
  memory.optimizer = optimizer.slots + optimizer.matrices;
  if (config.parallel.data == "manual") {  // values, gradients and copies twice, one optimizer
    memory.parameters *= 2;
    memory.gradients *= 2;
  }
  return memory;
}

// Of one layer's attention over divided samples; 0 if they are whole.
Bytes ring_bytes(const RunConfig& config, Count samples, Count tokens) {
  if (config.parallel.cp == 1) return 0;
  const Count tp = config.parallel.tp;
  const AttentionSizes sizes = *attention_of(config.model);
  const ops::AttentionShape here{samples, tokens, sizes.heads / tp, std::max<Count>(1, sizes.kv_heads / tp), sizes.head_size};
  return RingAttention::scratch_bytes(device_of(config), here, static_cast<int>(config.parallel.cp),
                                      placement_of(config).compute);
}

ActivationEstimate activations_of(const RunConfig& config, int stage, const Model& model) {
  const auto [samples, tokens] = micro_batch_shape(config);
  const auto* decoder = dynamic_cast<const Decoder*>(&model);
  if (decoder == nullptr) return {.arena = model.activation_bytes(samples, tokens)};
  const Bytes scratch = decoder->scratch_bytes(samples, tokens, ring_bytes(config, samples, tokens));
  if (config.parallel.pp == 1) return {.arena = decoder->held_bytes(0, samples, tokens) + scratch};
  const pipeline::Schedule schedule = schedule_of(config.parallel, config.train.accumulation);
  const std::vector<Bytes> held = pipeline::Engine::held_bytes(*decoder, schedule, stage, samples, tokens);
  return {.arena = scratch,
          .under_way = std::accumulate(held.begin(), held.end(), Bytes{0}),
          .messages = pipeline::Engine::message_bytes(*decoder, schedule, stage, samples, tokens)};
}

// Of all arenas of a rank.
Bytes reserves_of(const RunConfig& config, int stage) {
  const Count slots =
      config.parallel.pp == 1 ? 0 : pipeline::most_in_flight(schedule_of(config.parallel, config.train.accumulation), stage);
  return (1 + slots) * kArenaReserve;
}

}  // namespace

ActivationEstimate estimate_activations(const RunConfig& config, int stage) {
  TensorParallel part(static_cast<int>(config.parallel.tp), 0, config.parallel.sequence);
  return activations_of(config, stage, *declare_model_of_rank(config, stage, part));
}

MemoryEstimate estimate_memory(const RunConfig& config, int stage) {
  TensorParallel part(static_cast<int>(config.parallel.tp), 0, config.parallel.sequence);
  const std::unique_ptr<Model> model = declare_model_of_rank(config, stage, part);
  MemoryEstimate memory =
      is_sharded(config.parallel.data) ? sharded_state(config, stage, *model) : whole_state(config, stage, *model);
  const ActivationEstimate activations = activations_of(config, stage, *model);
  memory.activations = activations.arena + activations.under_way;
  memory.buffers += activations.messages;
  return memory;
}

std::vector<int> stages_to_estimate(const RunConfig& config) {
  if (config.parallel.pp == 1) return {0};
  return pipeline::heaviest_ranks(config.model, schedule_of(config.parallel, config.train.accumulation));
}

LargestMemory largest_memory(const RunConfig& config) {
  LargestMemory largest;
  for (const int stage : stages_to_estimate(config)) {
    const MemoryEstimate memory = estimate_memory(config, stage);
    largest.total = std::max(largest.total, memory.total());
    for (const auto kind : {&MemoryEstimate::parameters, &MemoryEstimate::gradients, &MemoryEstimate::optimizer,
                            &MemoryEstimate::activations, &MemoryEstimate::buffers, &MemoryEstimate::host, &MemoryEstimate::disk})
      largest.kinds.*kind = std::max(largest.kinds.*kind, memory.*kind);
  }
  return largest;
}

MicroBatchShape micro_batch_shape(const RunConfig& config) {
  const Count samples = config.parallel.data == "manual" ? config.train.micro_batch / 2 : config.train.micro_batch;
  return {samples, config.model.context / config.parallel.cp};
}

std::string describe_memory(const LargestMemory& largest) {
  const MemoryEstimate& memory = largest.kinds;
  std::string text = fmt::format("{} a rank: parameters {}, gradients {}, optimizer {}, activations {}",
                                 human_bytes(largest.total), human_bytes(memory.parameters), human_bytes(memory.gradients),
                                 human_bytes(memory.optimizer), human_bytes(memory.activations));
  if (memory.buffers > 0) text += fmt::format(", buffers {}", human_bytes(memory.buffers));
  if (memory.host > 0) text += fmt::format("; in the host's memory {}", human_bytes(memory.host));
  if (memory.disk > 0) text += fmt::format("; on disk {}", human_bytes(memory.disk));
  return text;
}

void check_device_memory(const RunConfig& config, int stage) {
  const MemoryEstimate need = estimate_memory(config, stage);
  const gpu::MemoryInfo have = gpu::memory();
  if (need.total() + reserves_of(config, stage) <= have.free) return;
  fail(ExitCode::memory,
       "the run does not fit on {}: it needs {}, and {} of {} are free. Lower train.micro_batch (now {}; raise "
       "train.accumulation to keep the batch), set model.activation_checkpointing = true, choose precision.policy = \"bf16\", or "
       "shrink the model",
       gpu::facts().name, describe_memory({need, need.total()}), human_bytes(have.free), human_bytes(have.total),
       config.train.micro_batch);
}

std::string batch_arithmetic(const RunConfig& config) {
  const TrainSection& train = config.train;
  std::string text = fmt::format("global batch {} = micro-batch {} x dp {} x accumulation {}", train.global_batch,
                                 train.micro_batch, config.parallel.dp, train.accumulation);
  if (attention_of(config.model)) text += fmt::format(": {} a step", counted(train.global_batch * config.model.context, "token"));
  return text;
}

std::string describe_run(const RunConfig& config, Count training_samples) {
  const double samples = static_cast<double>(config.train.steps) * static_cast<double>(config.train.global_batch);
  std::string text = fmt::format("model       {}, {} parameters\n", config.model.kind,
                                 human_count(static_cast<double>(count_parameters(config.model))));
  text += fmt::format("batch       {}\n", batch_arithmetic(config));
  text += fmt::format("length      {}, {} {}, {:.2f} epochs of {}\n", counted(config.train.steps, "step"),
                      human_count(samples * static_cast<double>(units_per_sample(config.model))), units_name(config.model),
                      samples / static_cast<double>(training_samples), counted(training_samples, "sample"));
  if (const std::string optimizers = check_optimizer(config); !optimizers.empty())
    text += fmt::format("optimizer   {}\n", optimizers);
  text += fmt::format("precision   {}\n", config.precision.policy);
  text += fmt::format("memory      {}", describe_memory(largest_memory(config)));
  return text + "\n";
}

}  // namespace cohort
