#include "plan/traffic.hpp"

#include <algorithm>
#include <cmath>

#include "config/model_rules.hpp"
#include "parallel/data/data_parallel.hpp"
#include "parallel/zero/pass_plan.hpp"
#include "pipeline/messages.hpp"
#include "plan/part.hpp"
#include "plan/traffic_table.hpp"
#include "train/matrix_holders.hpp"
#include "train/precision.hpp"

namespace cohort {
namespace {

void add_sharded(TrafficTable& table, const RunConfig& config, const PlannedPart& part) {
  const ParallelSection& parallel = config.parallel;
  const int all = static_cast<int>(parallel.dp * parallel.cp);
  const int shards = parallel.shard_ranks == 0 ? all : static_cast<int>(parallel.shard_ranks);
  const std::string name = gradient_group(config);
  const std::string among_shards = shards == all ? name : name + ".shards";
  const std::vector<ShardGroup> groups = make_shard_groups(part.model(), parallel.wrap, 0, shards);

  const Bytes weight = size_of(placement_of(config).compute);
  const Bytes gradient = size_of(all > 1 ? reduction_of(config) : DType::f32);
  const PassPlan pass =
      plan_pass(part.model(), groups, parallel.data, placement_of(config).compute, all > 1 ? reduction_of(config) : DType::f32);
  const Count reductions = parallel.data == "zero1" ? 1 : config.train.accumulation;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Count times = parallel.data == "zero3" ? config.train.accumulation * pass.gathers[g] : 1;
    table.add(among_shards, "reduce_scatter", "gradients", shards, reductions * groups[g].elements * gradient);
    table.add(among_shards, "all_gather", "weights", shards, times * groups[g].elements * weight);
    if (shards < all)
      table.add(name + ".replicas", "all_reduce", "gradients", all / shards, reductions * groups[g].block * gradient);
  }
}

void add_data_parallel(TrafficTable& table, const RunConfig& config, const PlannedPart& part) {
  if (is_sharded(config.parallel.data)) return add_sharded(table, config, part);
  const int ranks = static_cast<int>(config.parallel.dp * config.parallel.cp);
  const ParameterRegistry& parameters = part.model().parameters();
  const bool buckets = config.parallel.data == "bucketed";  // ranges of the flat gradients, with what pads them
  const Bytes each = size_of(buckets ? reduction_of(config) : DType::f32);
  table.add(gradient_group(config), "all_reduce", "gradients", ranks,
            (buckets ? parameters.flat_elements() : parameters.elements()) * each);
}

Count forward_passes(const RunConfig& config) { return config.model.activation_checkpointing ? 2 : 1; }

void add_context_parallel(TrafficTable& table, const RunConfig& config, const PlannedPart& part) {
  const Count ranks = config.parallel.cp;
  const AttentionSizes sizes = *attention_of(config.model);
  const Count own_heads = std::max<Count>(1, sizes.kv_heads / config.parallel.tp);
  const Count elements = part.rows() * 2 * own_heads * sizes.head_size;
  const Bytes turn = elements * size_of(placement_of(config).compute);
  const Bytes layer = (forward_passes(config) + 1) * (ranks - 1) * turn + ranks * elements * size_of(DType::f32);
  table.add("cp", "send", "keys and values", static_cast<int>(ranks), config.train.accumulation * part.layers() * layer);
}

// The gradients that several parts add to: one sum for each block, and for the head.
Bytes partial_gradient_bytes(const PlannedPart& part) {
  Count elements = 0;
  for (const auto& parameter : part.model().parameters().all()) {
    if (parameter->partial_gradient) elements += parameter->global_shape.elements();
  }
  return elements * size_of(DType::f32);
}

void add_tensor_parallel(TrafficTable& table, const RunConfig& config, const PlannedPart& part) {
  const int ranks = static_cast<int>(config.parallel.tp);
  const Bytes stream = config.train.accumulation * part.stream_bytes();  // of all micro-batches
  const Count blocks = part.layers(), forwards = forward_passes(config),
              ends = (part.embeds() ? 1 : 0) + (part.has_head() ? 1 : 0);
  const auto add = [&](const char* operation, const char* purpose, Bytes bytes) {
    table.add("tp", operation, purpose, ranks, bytes);
  };
  // Two sums a block and direction; one of the embedding forward, one of the head backward.
  const Count sums = blocks * 2 * (forwards + 1) + ends;
  if (config.parallel.sequence) {
    add("reduce_scatter", "sums of activations", sums * stream);
    // Two inputs of a block forward, and backward two gradients and the inputs again; the head's input, the embedding's gradient.
    add("all_gather", "activations", (blocks * (2 * forwards + 4) + ends) * stream);
  } else {
    add("all_reduce", "sums of activations", sums * stream);
  }
  // Largest logit, sum of exponentials and the target's logit of each row.
  if (part.has_head())
    add("all_reduce", "sums of activations", config.train.accumulation * 3 * part.rows() * size_of(DType::f32));
  add("all_reduce", "sums of activations", config.train.accumulation * partial_gradient_bytes(part));
}

void add_pipeline(TrafficTable& table, const RunConfig& config, const PlannedPart& part) {
  const int ranks = static_cast<int>(config.parallel.pp);
  table.add("pp", "send", "stream and its gradient", ranks,
            pipeline::sends_of(part.schedule(), part.stage()) * part.message_bytes());
  Count tied = 0;  // of which this rank owns the gradient
  for (const auto& parameter : part.model().parameters().all()) {
    if (parameter->copied) tied += parameter->elements();
  }
  if (tied == 0) return;
  if (is_sharded(config.parallel.data)) {
    const Count all = config.parallel.dp * config.parallel.cp;
    const Count shards = config.parallel.shard_ranks == 0 ? all : config.parallel.shard_ranks;
    for (const ShardGroup& group : make_shard_groups(part.model(), config.parallel.wrap, 0, static_cast<int>(shards))) {
      if (group.members.front().parameter->copied) tied = std::min(tied, group.block);
    }
  }
  table.add("pp.tied", "all_reduce", "the tied weight's gradient", 2, tied * size_of(DType::f32));
}

// Directions of matrices that are updated whole go to their owners, and updates back.
void add_matrices(TrafficTable& table, const RunConfig& config, int stage) {
  const int holders = matrix_holders(config);
  if (holders <= 1) return;
  const MatrixPlan plan(held_matrices(config, stage, ParameterGroups(config.optimizer)), holders);
  const std::vector<Count> sent = plan.sent_elements();
  const Count all = config.parallel.dp * config.parallel.cp;
  const bool within = config.parallel.shard_ranks != 0 && config.parallel.shard_ranks < all;
  const std::string group = holders == config.parallel.tp ? "tp"
                            : config.parallel.tp > 1      ? "holders"
                                                          : gradient_group(config) + (within ? ".shards" : "");
  table.add(group, "send", "matrices to their owners and back", holders,
            *std::max_element(sent.begin(), sent.end()) * size_of(DType::f32));
}

}  // namespace

std::string gradient_group(const RunConfig& config) {
  if (config.parallel.cp == 1) return "dp";
  return config.parallel.dp == 1 ? "cp" : "dp_cp";
}

Bytes moved_bytes(const std::string& operation, int ranks, Bytes given) {
  const auto share = [&](Bytes bytes) { return bytes / ranks * (ranks - 1) + bytes % ranks * (ranks - 1) / ranks; };
  if (operation == "all_reduce") return 2 * share(given);
  return operation == "reduce_scatter" || operation == "all_gather" ? share(given) : given;
}

Bytes Traffic::moved() const { return moved_bytes(operation, ranks, bytes); }

std::vector<Traffic> predict_traffic(const RunConfig& config, int stage) {
  const PlannedPart part(config, stage);
  TrafficTable table;
  const ParallelSection& parallel = config.parallel;
  if (parallel.dp * parallel.cp > 1) add_data_parallel(table, config, part);
  if (parallel.cp > 1) add_context_parallel(table, config, part);
  if (parallel.tp > 1) add_tensor_parallel(table, config, part);
  if (parallel.pp > 1) add_pipeline(table, config, part);
  add_matrices(table, config, stage);
  return table.entries();
}

std::vector<Traffic> predict_traffic(const RunConfig& config) {
  TrafficTable largest;
  for (int stage = 0; stage < config.parallel.pp; ++stage) largest.raise(predict_traffic(config, stage));
  return largest.entries();
}

}  // namespace cohort
