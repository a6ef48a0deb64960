// What the ranks of a node keep in its memory, which they share: on CPUs all that they have, on GPUs what they offload
// (parallel.offload, model.activation_offload).
#pragma once

#include <string>
#include <vector>

#include "base/machine.hpp"
#include "base/units.hpp"
#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "train/counted_step.hpp"

namespace cohort {

/// Bytes that a rank keeps there.
Bytes host_memory_of_rank(const RunConfig& config, const CountedStep& counted);
/// Of all ranks of a node together, on the node that needs most. `stages` are count_stages(config), each standing for the ranks
/// whose part of the model is like its own; ranks fill node after node.
Bytes host_memory_of_node(const RunConfig& config, const std::vector<CountedStep>& stages, int ranks_per_node);

/// A node as one of its ranks sees it.
struct NodeMemory {
  std::string id;    // of all ranks of the node, and of no others
  std::string host;  // for people
  Memory memory;
};
NodeMemory this_node();

/// Why `need` bytes of `ranks` ranks do not fit into the memory that a node has available: the sizes, and what to change. "" if
/// they do, or if nothing is known of its memory.
std::string why_not_in_host_memory(const RunConfig& config, Bytes need, int ranks, const NodeMemory& node);

/// `own`: what this rank is going to keep there. Throws SharedError(memory), the same on all ranks, of the first node whose ranks
/// do not fit into it together. // Collective over: world
void check_host_memory(const RunConfig& config, Bytes own, Communicator& world, const NodeMemory& node = this_node());

}  // namespace cohort
