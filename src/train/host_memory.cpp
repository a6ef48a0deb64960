#include "train/host_memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/consensus.hpp"
#include "config/pipeline.hpp"
#include "parallel/pipeline/stages.hpp"
#include "runtime/runtime.hpp"
#include "train/estimate.hpp"

namespace cohort {
namespace {

constexpr char kBetween = '\n';

std::string to_line(Bytes need, const NodeMemory& node) {
  return join(
      {node.id, node.host, std::to_string(need), std::to_string(node.memory.available), std::to_string(node.memory.total)},
      std::string(1, kBetween));
}

struct NodeNeed {
  NodeMemory node;
  int ranks = 0;
  Bytes need = 0;
};

// In the order of their first ranks.
std::vector<NodeNeed> needs_of_nodes(const std::vector<std::string>& ranks) {
  std::vector<NodeNeed> needs;
  for (const std::string& rank : ranks) {
    const std::vector<std::string> words = split(rank, kBetween);
    const auto number = [&](std::size_t word) -> Bytes { return std::strtoll(words.at(word).c_str(), nullptr, 10); };
    auto found = std::find_if(needs.begin(), needs.end(), [&](const NodeNeed& one) { return one.node.id == words[0]; });
    if (found == needs.end())
      found = needs.insert(needs.end(), NodeNeed{.node = {words[0], words.at(1), {number(4), number(3)}}});
    ++found->ranks;
    found->need += number(2);
    found->node.memory.available = std::min(found->node.memory.available, number(3));
  }
  return needs;
}

}  // namespace

Bytes host_memory_of_rank(const RunConfig& config, const CountedStep& counted) {
  return counted.host + (config.device.kind == "cpu" ? estimate_memory(counted).total() : 0);
}

Bytes host_memory_of_node(const RunConfig& config, const std::vector<CountedStep>& stages, int ranks_per_node) {
  std::map<int, Bytes> of_stage;  // of those that were counted
  for (const CountedStep& stage : stages)
    of_stage[stage.stage] = std::max(of_stage[stage.stage], host_memory_of_rank(config, stage));
  if (std::all_of(of_stage.begin(), of_stage.end(), [](const auto& one) { return one.second == 0; })) return 0;
  const ParallelSection& p = config.parallel;
  std::vector<int> like{0};
  if (p.pp > 1) like = pipeline::like_ranks(config.model, schedule_of(p, config.train.accumulation));
  const Count of_a_stage = p.dp * p.cp * p.tp, all = p.pp * of_a_stage;
  Bytes most = 0;
  for (Count first = 0; first < all; first += ranks_per_node) {
    Bytes node = 0;
    for (Count rank = first; rank < std::min<Count>(all, first + ranks_per_node); ++rank)
      node += of_stage.at(like[static_cast<std::size_t>(rank / of_a_stage)]);
    most = std::max(most, node);
  }
  return most;
}

NodeMemory this_node() {
  const std::string host = process_identity().host, boot = boot_id();
  return {boot.empty() ? host : boot, host, machine_memory()};
}

std::string why_not_in_host_memory(const RunConfig& config, Bytes need, int ranks, const NodeMemory& node) {
  if (node.memory.available == 0 || need <= node.memory.available) return "";
  const std::string whose = ranks == 1 ? "its rank needs" : fmt::format("its {} ranks need", ranks);
  const bool cpu = config.device.kind == "cpu";
  return fmt::format(
      "{} does not fit into the memory of {}: {} {}, and {} of {} is available. Lower train.micro_batch (now {}), start fewer "
      "ranks on each node, {}",
      cpu ? "the run" : "what the run offloads", node.host, whose, human_bytes(need), human_bytes(node.memory.available),
      human_bytes(node.memory.total), config.train.micro_batch,
      cpu ? "divide or shrink the model (`cohort plan --suggest` knows layouts), or give a job of SLURM more by --mem"
          : "or offload less (model.activation_offload, parallel.offload)");
}

void check_host_memory(const RunConfig& config, Bytes own, Communicator& world, const NodeMemory& node) {
  std::string why;
  for (const NodeNeed& one : needs_of_nodes(gather_texts(world, to_line(own, node), 0))) {
    if (why.empty()) why = why_not_in_host_memory(config, one.need, one.ranks, one.node);
  }
  why = broadcast_text(world, std::move(why), 0);
  if (!why.empty()) throw SharedError(ExitCode::memory, why);
}

}  // namespace cohort
