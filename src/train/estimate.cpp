#include "train/estimate.hpp"

#include <algorithm>
#include <memory>

#include "base/text.hpp"
#include "comm/consensus.hpp"
#include "config/model_rules.hpp"
#include "config/rate_scaling.hpp"
#include "gpu/device.hpp"
#include "models/model.hpp"
#include "train/check_optimizer.hpp"
#include "train/host_memory.hpp"

namespace cohort {
namespace {

// Of all arenas of a rank.
Bytes reserves_of(const StepArenas& arenas) { return static_cast<Count>(1 + arenas.under_way.size()) * kArenaReserve; }

// "940.80K parameters", "948.99K parameters, of which 8.19K are trained (adapters of rank 8)".
std::string parameters_in_words(const ModelSection& model) {
  const std::unique_ptr<Model> declared = declare_model(model);
  const auto count = [](Count elements) { return human_count(static_cast<double>(elements)); };
  std::string all = count(declared->parameters().elements()) + " parameters";
  if (model.lora.rank == 0) return all;
  return fmt::format("{}, of which {} are trained (adapters of rank {})", all, count(declared->parameters().trained_elements()),
                     model.lora.rank);
}

void check_device_memory(const RunConfig& config, const CountedStep& counted) {
  const MemoryEstimate need = estimate_memory(counted);
  const gpu::MemoryInfo have = gpu::memory();
  if (need.total() + reserves_of(counted.arenas) <= have.free) return;
  fail(ExitCode::memory,
       "the run does not fit on {}: it needs {}, and {} of {} is free. Lower train.micro_batch (now {}; raise train.accumulation "
       "to keep the batch), set model.activation_checkpointing = \"selective\" or \"full\" (model.checkpointed_layers: of how "
       "many), model.activation_offload = true, or precision.policy = \"bf16\", or shrink the model",
       gpu::facts().name, describe_memory({need, need.total()}), human_bytes(have.free), human_bytes(have.total),
       config.train.micro_batch);
}

}  // namespace

MemoryEstimate estimate_memory(const CountedStep& counted) {
  const ByKind<Bytes>& kinds = counted.memory.kinds;
  return {.parameters = kinds[MemoryKind::parameters],
          .gradients = kinds[MemoryKind::gradients],
          .optimizer = kinds[MemoryKind::optimizer],
          .activations = kinds[MemoryKind::activations],
          .buffers = kinds[MemoryKind::buffers],
          .host = counted.host,
          .disk = counted.disk};
}

MemoryEstimate estimate_memory(const RunConfig& config, int stage) { return estimate_memory(count_step(config, stage)); }

LargestMemory largest_memory(const std::vector<CountedStep>& stages) {
  LargestMemory largest;
  for (const CountedStep& stage : stages) {
    const MemoryEstimate memory = estimate_memory(stage);
    largest.total = std::max(largest.total, memory.total());
    for (const auto kind : {&MemoryEstimate::parameters, &MemoryEstimate::gradients, &MemoryEstimate::optimizer,
                            &MemoryEstimate::activations, &MemoryEstimate::buffers, &MemoryEstimate::host, &MemoryEstimate::disk})
      largest.kinds.*kind = std::max(largest.kinds.*kind, memory.*kind);
  }
  return largest;
}

LargestMemory largest_memory(const RunConfig& config) { return largest_memory(count_stages(config)); }

std::string describe_memory(const LargestMemory& largest) {
  const MemoryEstimate& memory = largest.kinds;
  std::string text = fmt::format("{} per rank: parameters {}, gradients {}, optimizer {}, activations {}",
                                 human_bytes(largest.total), human_bytes(memory.parameters), human_bytes(memory.gradients),
                                 human_bytes(memory.optimizer), human_bytes(memory.activations));
  if (memory.buffers > 0) text += fmt::format(", buffers {}", human_bytes(memory.buffers));
  if (memory.host > 0) text += fmt::format("; in host memory {}", human_bytes(memory.host));
  if (memory.disk > 0) text += fmt::format("; on disk {}", human_bytes(memory.disk));
  return text;
}

CountedStep count_step_that_fits(const RunConfig& config, int stage, Communicator& world) {
  CountedStep counted;
  fail_together(world, "building the model", [&] { counted = count_step(config, stage); });
  const bool gpu = config.device.kind == "cuda";
  if (!gpu || config.model.activation_offload || config.parallel.offload != "none")
    check_host_memory(config, host_memory_of_rank(config, counted), world);
  if (gpu) fail_together(world, "looking at the memory of the GPUs", [&] { check_device_memory(config, counted); });
  return counted;
}

std::string batch_arithmetic(const RunConfig& config) {
  const TrainSection& train = config.train;
  std::string text = fmt::format("global batch {} = micro-batch {} x dp {} x accumulation {}", train.global_batch,
                                 train.micro_batch, config.parallel.dp, train.accumulation);
  if (attention_of(config.model))
    text += fmt::format(": {} per step", counted(train.global_batch * config.model.context, "token"));
  return text;
}

std::string describe_run(const RunConfig& config, Count training_samples, int ranks_per_node) {
  const double samples = static_cast<double>(config.train.steps) * static_cast<double>(config.train.global_batch);
  std::string text = fmt::format("model       {}, {}\n", config.model.kind, parameters_in_words(config.model));
  text += fmt::format("batch       {}\n", batch_arithmetic(config));
  text += fmt::format("length      {}, {} {}", counted(config.train.steps, "step"),
                      human_count(samples * static_cast<double>(units_per_sample(config.model))), units_name(config.model));
  if (config.data.sources.empty())  // a mixture has epochs of each source: describe_mixture()
    text += fmt::format(", {:.2f} epochs of {}", samples / static_cast<double>(training_samples),
                        counted(training_samples, "sample"));
  text += '\n';
  if (const std::string optimizers = check_optimizer(config); !optimizers.empty())
    text += fmt::format("optimizer   {}\n", optimizers);
  if (const std::string rate = scaled_rate_in_words(config); !rate.empty()) text += fmt::format("rate        {}\n", rate);
  text += fmt::format("precision   {}\n", config.precision.policy);
  const std::vector<CountedStep> stages = count_stages(config);
  text += fmt::format("memory      {}\n", describe_memory(largest_memory(stages)));
  const Bytes of_node = ranks_per_node > 1 ? host_memory_of_node(config, stages, ranks_per_node) : 0;
  if (of_node > 0)
    text += fmt::format("{} {} on each node, for its {} ranks\n", config.device.kind == "cpu" ? "           " : "host memory",
                        human_bytes(of_node), ranks_per_node);
  return text;
}

}  // namespace cohort
