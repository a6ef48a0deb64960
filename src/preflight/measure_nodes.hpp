// Measures all nodes of the running job, in an order in which no measurement disturbs another: disks, then clocks and messages,
// then GPUs, then NCCL.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "preflight/measurements.hpp"
#include "runtime/runtime.hpp"

namespace cohort::preflight {

struct Options {
  std::string disk = ".";  // folder of the disk that the job will write to
  bool quick = false;      // smaller files and messages, fewer pairs of nodes
  std::string program;     // version of Cohort
};

/// All of it on rank 0; of the others use nothing. Opens the device if ranks and GPUs fit together.
// Collective over: world
Measurements measure(Runtime& runtime, Communicator& world, const Options& options);

/// What ranks found, put together by node: of ranks with the same number the first that has a host is the node, to which the
/// GPUs of the others are added; its `gpus` and `pairs` are then sorted by PCI address.
std::vector<Node> merge(const std::vector<Node>& of_ranks);

/// Clocks and links between the first ranks of nodes, and within this rank's node; writes them into `own`, if this is the first
/// rank of its node. `node_of_rank` says which ranks share a node. // Collective over: world
void measure_network(Communicator& world, const std::vector<int>& node_of_rank, bool quick, Node& own);

}  // namespace cohort::preflight
