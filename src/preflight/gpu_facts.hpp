// The GPUs of one node, each measured by one rank.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "preflight/measurements.hpp"

namespace cohort::preflight {

/// PCI addresses of the devices that this process sees, in the order of their numbers.
std::vector<std::string> visible_gpus();

/// What this rank measures: of the devices that it sees, those that no earlier rank of the node does; and so of pairs. Ranks take
/// turns, so that they do not disturb each other. `bytes`: of each copy. // Collective over: node
struct GpusOfRank {
  std::vector<Gpu> gpus;
  std::vector<GpuPair> pairs;
};
GpusOfRank measure_gpus(Communicator& node, Bytes bytes);

}  // namespace cohort::preflight
