#include "plan/memory.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "config/model_rules.hpp"
#include "config/optimizer_rules.hpp"
#include "config/pipeline.hpp"
#include "nn/activation_offload.hpp"
#include "parallel/strategy.hpp"
#include "parallel/zero/stage.hpp"
#include "plan/part.hpp"
#include "train/estimate.hpp"
#include "train/precision.hpp"

namespace cohort {
namespace {

bool halves(const RunConfig& config) { return storage_of(config).compute != DType::f32; }

// The output of a layer, and so the input of the next, in the paper's bytes.
PaperMemory paper_output(const RunConfig& config) {
  const Count positions = config.model.context / config.parallel.cp;  // of a rank
  const auto sbh = static_cast<double>(positions * config.train.micro_batch * config.model.width);
  if (config.parallel.sequence) return {2.0 * sbh / static_cast<double>(config.parallel.tp), "2 sbh/t"};
  return {2.0 * sbh, "2 sbh"};
}

// s b h (...) of a layer and micro-batch, in the paper's bytes, with activation checkpointing of this kind.
PaperMemory paper_layer(const RunConfig& config, std::string_view checkpointing) {
  const ModelSection& model = config.model;
  const auto t = static_cast<double>(config.parallel.tp);
  const Count positions = model.context / config.parallel.cp;  // of a rank
  const auto s = static_cast<double>(positions), h = static_cast<double>(model.width);
  const double sbh = s * static_cast<double>(config.train.micro_batch) * h;
  const double scores = 5.0 * static_cast<double>(model.heads) * s / h;
  if (checkpointing == "full") return paper_output(config);  // of the one before
  if (checkpointing == "selective") {
    if (config.parallel.sequence) return {4.0 * sbh / t, "4 sbh/t"};
    if (config.parallel.tp > 1) return {sbh * (2.0 + 2.0 / t), "sbh (2 + 2/t)"};
    return {4.0 * sbh, "4 sbh"};
  }
  if (config.parallel.sequence) return {sbh / t * (34.0 + scores), "sbh/t (34 + 5as/h)"};
  if (config.parallel.tp > 1) return {sbh * (10.0 + 24.0 / t + scores / t), "sbh (10 + 24/t + 5as/(ht))"};
  return {sbh * (34.0 + scores), "sbh (34 + 5as/h)"};
}

std::string layers_in_words(double layers) { return fmt::format("{:g} layer{}", layers, layers == 1.0 ? "" : "s"); }

// What of a stage is on the device at once.
struct KeptOnDevice {
  double checkpointed = 0.0, whole = 0.0;  // layers, times micro-batches under way; of several chunks each has its share
  Count outputs = 0;                       // of chunks, beside those
};

KeptOnDevice kept_on_device(const RunConfig& config, int stage) {
  const PlannedPart part(config, stage);
  const Count under_way = config.parallel.pp == 1 ? 1 : most_in_flight(part.schedule(), stage);
  const Count checkpointed = part.checkpointed_layers(), whole = part.layers() - checkpointed;
  if (!config.model.activation_offload || !exec_of(config).gpu()) {
    const double times = static_cast<double>(under_way) / part.schedule().chunks;
    return {times * static_cast<double>(checkpointed), times * static_cast<double>(whole)};
  }
  const Count outputs = config.parallel.pp == 1 ? 0 : under_way;
  const ModelSection& model = config.model;
  if (model.activation_checkpointing != "none" && model.checkpointed_layers > 0 && model.checkpointed_layers < model.layers) {
    // The others alone are offloaded.
    const double times = static_cast<double>(under_way) / part.schedule().chunks;
    const Count lanes = std::min<Count>(part.most_whole_layers_of_a_chunk(), ActivationOffload::kLanes);
    return {times * static_cast<double>(checkpointed), static_cast<double>(lanes), outputs};
  }
  // Chunks take turns in the lanes, and each fills as many as it has layers. The output of each one's last block was sent from
  // where it stays.
  const auto lanes = static_cast<double>(std::min<Count>(part.layers_of_largest_chunk(), ActivationOffload::kLanes));
  return {whole > 0 ? 0.0 : lanes, whole > 0 ? lanes : 0.0, outputs};
}

PaperMemory paper_activations(const RunConfig& config) {
  const PaperMemory whole = paper_layer(config, "none"), output = paper_output(config);
  const PaperMemory checkpointed = paper_layer(config, config.model.activation_checkpointing);
  const double width = halves(config) ? 1.0 : 2.0;
  PaperMemory most;
  for (const int stage : stages_to_count(config)) {
    const KeptOnDevice kept = kept_on_device(config, stage);
    const double bytes = width * (kept.checkpointed * checkpointed.bytes + kept.whole * whole.bytes +
                                  static_cast<double>(kept.outputs) * output.bytes);
    if (bytes <= most.bytes) continue;
    std::vector<std::string> terms;
    if (kept.checkpointed > 0) terms.push_back(fmt::format("{} x {}", checkpointed.formula, layers_in_words(kept.checkpointed)));
    if (kept.whole > 0) terms.push_back(fmt::format("{} x {}", whole.formula, layers_in_words(kept.whole)));
    if (kept.outputs > 0) terms.push_back(fmt::format("{} x {}", output.formula, counted(kept.outputs, "output")));
    std::string sum = join(terms, " + ");
    if (!halves(config)) sum = "2 x " + (terms.size() > 1 ? "(" + sum + ")" : sum);
    const bool own = kept.checkpointed > 0 || kept.outputs > 0;
    most = {bytes, fmt::format("{} ({}Korthikanti 4)", sum, own ? "in terms of " : "")};
  }
  return most;
}

ByKind<Bytes> by_kind(const MemoryEstimate& estimate) {
  ByKind<Bytes> memory;
  memory[MemoryKind::parameters] = estimate.parameters;
  memory[MemoryKind::gradients] = estimate.gradients;
  memory[MemoryKind::optimizer] = estimate.optimizer;
  memory[MemoryKind::activations] = estimate.activations;
  memory[MemoryKind::buffers] = estimate.buffers;
  return memory;
}

}  // namespace

PredictedMemory predict_memory(const std::vector<CountedStep>& stages) {
  const LargestMemory largest = largest_memory(stages);
  PredictedMemory memory{by_kind(largest.kinds), largest.total, largest.kinds.host, largest.kinds.disk};
  for (const CountedStep& stage : stages) {
    Bytes others = 0;
    for (const auto& [label, bytes] : stage.memory.others) others += bytes;
    memory.others = std::max(memory.others, others);
  }
  return memory;
}

PredictedMemory predict_memory(const RunConfig& config) { return predict_memory(count_stages(config)); }

ByKind<PaperMemory> paper_memory(const RunConfig& config) {
  Count largest = 0, trained = 0;
  for (const int stage : stages_to_count(config)) {
    const PlannedPart part(config, stage);
    largest = std::max(largest, part.model().parameters().elements());
    trained = std::max(trained, part.model().parameters().trained_elements());
  }
  const int stage = zero_stage(config.parallel.data);
  const Count all = config.parallel.dp * config.parallel.cp;
  const Count ranks = config.parallel.shard_ranks == 0 ? all : config.parallel.shard_ranks;
  const auto divided = [&](double bytes, int from, Count elements) {
    const bool divides = stage >= from && ranks > 1;
    return PaperMemory{bytes * static_cast<double>(elements) / static_cast<double>(divides ? ranks : 1),
                       fmt::format("{} P{} (ZeRO {})", bytes, divides ? "/N" : "", divides ? "5" : "3.1")};
  };
  ByKind<PaperMemory> paper;
  paper[MemoryKind::parameters] = divided(halves(config) ? 2 : 4, 3, largest);
  paper[MemoryKind::gradients] = divided(halves(config) ? 2 : 4, 2, trained);
  const std::vector<const OptimizerRules*> optimizers = optimizers_at_work(config.optimizer);
  if (optimizers.size() == 1) {
    const auto slots = static_cast<double>(optimizers.front()->slot_bytes());
    paper[MemoryKind::optimizer] = divided(slots + (halves(config) ? 4 : 0), 1, trained);
  }
  if (attention_of(config.model)) paper[MemoryKind::activations] = paper_activations(config);
  return paper;
}

Bytes activation_bytes_per_token_and_layer(const RunConfig& config) {
  if (!attention_of(config.model)) return 0;
  RunConfig one = config;
  one.parallel.pp = 1;
  one.parallel.data = ParallelSection{}.data;  // one that works on whole micro-batches
  one.parallel.offload = "none";               // which that one has nothing of
  one.model.activation_offload = false;        // how much it is, wherever it is
  one.model.checkpointed_layers = 0;           // if some are, of those
  one.train.accumulation = 1;
  const auto activations = [&](Count layers) {
    one.model.layers = layers;
    return estimate_memory(one, 0).activations;
  };
  return (activations(3) - activations(2)) / (one.train.micro_batch * one.model.context / config.parallel.cp);
}

bool is_emulation_label(std::string_view label) { return label == "fp32 copies"; }

}  // namespace cohort
