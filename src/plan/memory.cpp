#include "plan/memory.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "config/pipeline.hpp"
#include "parallel/data/data_parallel.hpp"
#include "pipeline/messages.hpp"
#include "plan/part.hpp"
#include "train/estimate.hpp"
#include "train/precision.hpp"

namespace cohort {
namespace {

// Every label of what a step keeps; the names are given where the tensors are made.
constexpr std::pair<std::string_view, MemoryKind> kKinds[] = {
    {"parameters.values", MemoryKind::parameters},   {"parameters.compute", MemoryKind::parameters},
    {"zero.values", MemoryKind::parameters},         {"zero.compute", MemoryKind::parameters},
    {"parameters.gradients", MemoryKind::gradients}, {"gradients.rounded", MemoryKind::gradients},
    {"zero.gradient", MemoryKind::gradients},        {"zero.gradients", MemoryKind::gradients},
    {"optimizer.m", MemoryKind::optimizer},          {"optimizer.v", MemoryKind::optimizer},
    {"optimizer.ranges", MemoryKind::optimizer},     {"optimizer.m_block", MemoryKind::optimizer},
    {"optimizer.v_block", MemoryKind::optimizer},    {"zero.buffer", MemoryKind::buffers},
    {"pipeline.message", MemoryKind::buffers},
};

bool halves(const RunConfig& config) { return placement_of(config).compute != DType::f32; }

// Stage 0: nothing is divided.
int zero_stage(const RunConfig& config) { return is_sharded(config.parallel.data) ? config.parallel.data.back() - '0' : 0; }

// s b h (...) of a layer and micro-batch, in the paper's bytes.
PaperMemory paper_layer(const RunConfig& config) {
  const ModelSection& model = config.model;
  const auto t = static_cast<double>(config.parallel.tp);
  const auto s = static_cast<double>(model.context / config.parallel.cp), h = static_cast<double>(model.width);
  const double sbh = s * static_cast<double>(config.train.micro_batch) * h;
  const double scores = 5.0 * static_cast<double>(model.heads) * s / h;
  if (model.activation_checkpointing) return {2.0 * sbh, "2 sbh"};
  if (config.parallel.sequence) return {sbh / t * (34.0 + scores), "sbh/t (34 + 5as/h)"};
  if (config.parallel.tp > 1) return {sbh * (10.0 + 24.0 / t + scores / t), "sbh (10 + 24/t + 5as/(ht))"};
  return {sbh * (34.0 + scores), "sbh (34 + 5as/h)"};
}

PaperMemory paper_activations(const RunConfig& config) {
  const PaperMemory layer = paper_layer(config);
  Count most = 0;  // layers times micro-batches under way
  for (int stage = 0; stage < config.parallel.pp; ++stage) {
    const PlannedPart part(config, stage);
    const Count under_way = config.parallel.pp == 1 ? 1 : most_in_flight(part.schedule(), stage);
    most = std::max(most, part.layers() * under_way / part.schedule().chunks);
  }
  const double width = halves(config) ? 1.0 : 2.0;
  return {width * static_cast<double>(most) * layer.bytes,
          fmt::format("{}{} x {} layers (Korthikanti 4)", halves(config) ? "" : "2 x ", layer.formula, most)};
}

// Room for the largest chunk that slots which served the smallest alone have left.
Bytes spare_slots(const RunConfig& config, int stage) {
  const PlannedPart part(config, stage);
  Bytes least = std::numeric_limits<Bytes>::max(), most = 0;
  for (std::size_t chunk = 0; chunk < part.decoder()->chunks().size(); ++chunk) {
    const Bytes bytes = part.decoder()->forward_bytes(chunk, config.train.micro_batch, config.model.context / config.parallel.cp);
    least = std::min(least, bytes);
    most = std::max(most, bytes);
  }
  return most_in_flight(part.schedule(), stage) * (most - least);
}

ByKind<Bytes> by_kind(const RunConfig& config, int stage, const MemoryEstimate& estimate) {
  // The second replica has values, gradients and copies like the first.
  const Bytes replicas = estimate.replica > 0 ? 2 : 1;
  const Count arenas =
      1 + (config.parallel.pp > 1 ? most_in_flight(schedule_of(config.parallel, config.train.accumulation), stage) : 0);
  ByKind<Bytes> memory;
  memory[MemoryKind::parameters] = replicas * estimate.parameters;
  memory[MemoryKind::gradients] = replicas * estimate.gradients;
  memory[MemoryKind::optimizer] = estimate.optimizer;
  memory[MemoryKind::activations] = estimate.activations - arenas * kActivationReserve;
  memory[MemoryKind::buffers] = estimate.buffers;
  return memory;
}

ByKind<Bytes> spare_of(const RunConfig& config) {
  ByKind<Bytes> spare;
  if (config.parallel.pp == 1) return spare;
  const PlannedPart first(config, 0);
  const Bytes messages = messages_on_their_way(first.schedule()) * first.message_bytes();
  spare[MemoryKind::buffers] = messages;
  for (int stage = 0; stage < config.parallel.pp; ++stage)
    spare[MemoryKind::activations] = std::max(spare[MemoryKind::activations], spare_slots(config, stage));
  return spare;
}

}  // namespace

std::string_view name_of(MemoryKind kind) {
  constexpr std::array<std::string_view, kMemoryKinds.size()> kNames{"parameters", "gradients", "optimizer", "activations",
                                                                     "buffers"};
  return kNames[static_cast<std::size_t>(kind)];
}

ByKind<Bytes> predict_memory(const RunConfig& config, int stage) {
  return by_kind(config, stage, estimate_memory(config, stage));
}

PredictedMemory predict_memory(const RunConfig& config) {
  PredictedMemory largest;
  for (const int stage : stages_to_estimate(config)) {
    const MemoryEstimate estimate = estimate_memory(config, stage);
    const ByKind<Bytes> memory = by_kind(config, stage, estimate);
    Bytes total = 0;
    for (const MemoryKind kind : kMemoryKinds) {
      largest.kinds[kind] = std::max(largest.kinds[kind], memory[kind]);
      total += memory[kind];
    }
    largest.total = std::max(largest.total, total);
    largest.host = std::max(largest.host, estimate.host);
    largest.disk = std::max(largest.disk, estimate.disk);
  }
  largest.spare = spare_of(config);
  return largest;
}

ByKind<PaperMemory> paper_memory(const RunConfig& config) {
  Count largest = 0;
  for (const int stage : stages_to_estimate(config))
    largest = std::max(largest, PlannedPart(config, stage).model().parameters().elements());
  const auto parameters = static_cast<double>(largest);
  const int stage = zero_stage(config);
  const Count all = config.parallel.dp * config.parallel.cp;
  const Count ranks = config.parallel.shard_ranks == 0 ? all : config.parallel.shard_ranks;
  const auto divided = [&](double bytes, int from) {
    const bool divides = stage >= from && ranks > 1;
    return PaperMemory{bytes * parameters / static_cast<double>(divides ? ranks : 1),
                       fmt::format("{} P{} (ZeRO {})", bytes, divides ? "/N" : "", divides ? "5" : "3.1")};
  };
  ByKind<PaperMemory> paper;
  paper[MemoryKind::parameters] = divided(halves(config) ? 2 : 4, 3);
  paper[MemoryKind::gradients] = divided(halves(config) ? 2 : 4, 2);
  paper[MemoryKind::optimizer] = divided(halves(config) ? 12 : 8, 1);
  if (config.model.kind != "mlp") paper[MemoryKind::activations] = paper_activations(config);
  return paper;
}

Bytes activation_bytes_per_token_and_layer(const RunConfig& config) {
  RunConfig one = config;
  one.parallel.pp = 1;
  one.model.layers = 1;
  const Count tokens = config.model.context / config.parallel.cp;
  const PlannedPart part(one, 0);
  one.model.layers = 2;
  const PlannedPart next(one, 0);
  if (part.decoder() == nullptr) return 0;
  const Bytes layer =
      next.decoder()->held_bytes(0, one.train.micro_batch, tokens) - part.decoder()->held_bytes(0, one.train.micro_batch, tokens);
  return layer / (one.train.micro_batch * tokens);
}

std::optional<MemoryKind> kind_of_label(std::string_view label) {
  for (const auto& [known, kind] : kKinds) {
    if (label == known) return kind;
  }
  return std::nullopt;
}

bool is_emulation_label(std::string_view label) { return label == "fp32 copies"; }

bool is_arena_label(std::string_view label) { return label == "activations" || label == "pipeline.activations"; }

}  // namespace cohort
