#include "train/estimate.hpp"

#include "base/text.hpp"
#include "gpu/device.hpp"
#include "train/precision.hpp"

namespace cohort {
namespace {

Count tokens_per_sample(const RunConfig& config) { return config.model.kind == "mlp" ? 1 : config.model.context; }

}  // namespace

MemoryEstimate estimate_memory(const RunConfig& config) {
  const Placement placement = placement_of(config);
  const Count elements = count_parameters(config.model);
  const Bytes each = elements * size_of(DType::f32);
  const Bytes copy = placement.compute == DType::f32 ? 0 : elements * size_of(placement.compute);
  MemoryEstimate memory;
  memory.parameters = each + copy;
  memory.gradients = each;
  if (reduction_of(config) != DType::f32 && config.parallel.dp > 1) memory.gradients += copy;
  memory.optimizer = 2 * each;
  const bool manual = config.parallel.data == "manual";
  if (manual) memory.replica = 2 * each + copy;
  const Count samples = manual ? config.train.micro_batch / 2 : config.train.micro_batch;
  // Tensors begin at aligned addresses: a little is lost between them.
  constexpr Bytes kBetweenTensors = kMiB;
  memory.activations = count_activation_bytes(config.model, samples, placement) + kBetweenTensors;
  return memory;
}

std::string describe_memory(const MemoryEstimate& memory) {
  std::string text = fmt::format("{} a rank: parameters {}, gradients {}, optimizer {}, activations {}",
                                 human_bytes(memory.total()), human_bytes(memory.parameters), human_bytes(memory.gradients),
                                 human_bytes(memory.optimizer), human_bytes(memory.activations));
  if (memory.replica > 0) text += fmt::format(", second replica {}", human_bytes(memory.replica));
  return text;
}

void check_device_memory(const RunConfig& config) {
  const MemoryEstimate need = estimate_memory(config);
  const gpu::MemoryInfo have = gpu::memory();
  if (need.total() <= have.free) return;
  fail(ExitCode::memory,
       "the run does not fit on {}: it needs {}, and {} of {} are free. Lower train.micro_batch (now {}; raise "
       "train.accumulation to "
       "keep the batch), set model.activation_checkpointing = true, choose precision.policy = \"bf16\", or shrink the model",
       gpu::facts().name, describe_memory(need), human_bytes(have.free), human_bytes(have.total), config.train.micro_batch);
}

std::string batch_arithmetic(const RunConfig& config) {
  const TrainSection& train = config.train;
  std::string text = fmt::format("global batch {} = micro-batch {} x dp {} x accumulation {}", train.global_batch,
                                 train.micro_batch, config.parallel.dp, train.accumulation);
  if (config.model.kind != "mlp") text += fmt::format(": {} tokens a step", train.global_batch * config.model.context);
  return text;
}

std::string describe_run(const RunConfig& config, Count training_samples) {
  const double samples = static_cast<double>(config.train.steps) * static_cast<double>(config.train.global_batch);
  std::string text = fmt::format("model       {}, {} parameters\n", config.model.kind,
                                 human_count(static_cast<double>(count_parameters(config.model))));
  text += fmt::format("batch       {}\n", batch_arithmetic(config));
  text += fmt::format("length      {} steps, {} tokens, {:.2f} epochs of {} samples\n", config.train.steps,
                      human_count(samples * static_cast<double>(tokens_per_sample(config))),
                      samples / static_cast<double>(training_samples), training_samples);
  text += fmt::format("precision   {}\n", config.precision.policy);
  text += fmt::format("memory      {}", describe_memory(estimate_memory(config)));
  return text + "\n";
}

}  // namespace cohort
