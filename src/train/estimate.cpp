#include "train/estimate.hpp"

#include "base/text.hpp"

namespace cohort {
namespace {

Count tokens_per_sample(const RunConfig& config) { return config.model.kind == "mlp" ? 1 : config.model.context; }

}  // namespace

MemoryEstimate estimate_memory(const RunConfig& config) {
  const Count elements = count_parameters(config.model);
  const Bytes each = elements * size_of(DType::f32);
  MemoryEstimate memory;
  memory.parameters = each;
  memory.gradients = each;
  memory.optimizer = 2 * each;
  const bool manual = config.parallel.data == "manual";
  if (manual) memory.replica = 2 * each;
  const Count samples = manual ? config.train.micro_batch / 2 : config.train.micro_batch;
  memory.activations = count_activations(config.model, samples) * size_of(DType::f32);
  return memory;
}

std::string batch_arithmetic(const RunConfig& config) {
  const TrainSection& train = config.train;
  std::string text = fmt::format("global batch {} = micro-batch {} x dp {} x accumulation {}", train.global_batch,
                                 train.micro_batch, config.parallel.dp, train.accumulation);
  if (config.model.kind != "mlp") text += fmt::format(": {} tokens a step", train.global_batch * config.model.context);
  return text;
}

std::string describe_run(const RunConfig& config, Count training_samples) {
  const MemoryEstimate memory = estimate_memory(config);
  const double samples = static_cast<double>(config.train.steps) * static_cast<double>(config.train.global_batch);
  std::string text = fmt::format("model       {}, {} parameters\n", config.model.kind,
                                 human_count(static_cast<double>(count_parameters(config.model))));
  text += fmt::format("batch       {}\n", batch_arithmetic(config));
  text += fmt::format("length      {} steps, {} tokens, {:.2f} epochs of {} samples\n", config.train.steps,
                      human_count(samples * static_cast<double>(tokens_per_sample(config))),
                      samples / static_cast<double>(training_samples), training_samples);
  text += fmt::format("memory      {} a rank: parameters {}, gradients {}, optimizer {}, activations {}",
                      human_bytes(memory.total()), human_bytes(memory.parameters), human_bytes(memory.gradients),
                      human_bytes(memory.optimizer), human_bytes(memory.activations));
  if (memory.replica > 0) text += fmt::format(", second replica {}", human_bytes(memory.replica));
  return text + "\n";
}

}  // namespace cohort
