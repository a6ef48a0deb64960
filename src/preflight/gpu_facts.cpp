#include "preflight/gpu_facts.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/consensus.hpp"
#include "gpu/device.hpp"
#include "gpu/links.hpp"
#include "gpu/nvml.hpp"
#include "observe/flight_recorder.hpp"

namespace cohort::preflight {
namespace {

using Addresses = std::vector<std::string>;

bool holds(const Addresses& addresses, const std::string& address) {
  return std::find(addresses.begin(), addresses.end(), address) != addresses.end();
}

// Whether an earlier rank of the node sees all of these.
bool is_for_an_earlier_rank(const std::vector<Addresses>& of_ranks, int rank, const Addresses& wanted) {
  return std::any_of(of_ranks.begin(), of_ranks.begin() + rank, [&](const Addresses& seen) {
    return std::all_of(wanted.begin(), wanted.end(), [&](const std::string& address) { return holds(seen, address); });
  });
}

void take_reading(Gpu& gpu) {
  if (const auto reading = gpu::read_gpu(gpu.pci_id)) {
    gpu.celsius = reading->celsius;
    gpu.clock_mhz = reading->clock_mhz;
    gpu.slowed = gpu::slowdown_names(reading->slowdowns);
    gpu.slowed_by_fault = gpu::is_fault(reading->slowdowns);
  }
  if (const auto health = gpu::read_health(gpu.pci_id)) {
    gpu.max_clock_mhz = health->max_clock_mhz;
    gpu.uncorrected_errors = health->uncorrected_errors;
    gpu.remap_pending = health->remap_pending;
    gpu.remap_failed = health->remap_failed;
  }
}

Gpu measure(int index, const std::string& pci_id, Bytes bytes) {
  Gpu gpu;
  gpu.pci_id = pci_id;
  try {
    gpu.name = gpu::describe(index).name;
    const gpu::DeviceSpeeds speeds = gpu::measure_device(index, bytes, [&] { take_reading(gpu); });
    gpu.to_device = speeds.to_device;
    gpu.from_device = speeds.from_device;
    gpu.memory = speeds.memory;
  } catch (const Error& error) {
    gpu.problem = error.what();
  }
  FlightRecorder::of_process().beat();
  return gpu;
}

GpuPair measure_pair(int from, int to, const Addresses& addresses, Bytes bytes, Gpu& blamed) {
  GpuPair pair{addresses[static_cast<std::size_t>(from)], addresses[static_cast<std::size_t>(to)]};
  try {
    pair.peer_access = gpu::has_peer_access(from, to);
    pair.speed = gpu::measure_pair(from, to, bytes);
  } catch (const Error& error) {
    if (blamed.problem.empty()) blamed.problem = fmt::format("copying to {}: {}", pair.to, error.what());
  }
  FlightRecorder::of_process().beat();
  return pair;
}

GpusOfRank measure_own(const std::vector<Addresses>& of_ranks, int rank, Bytes bytes) {
  const Addresses& own = of_ranks[static_cast<std::size_t>(rank)];
  const int count = static_cast<int>(own.size());
  GpusOfRank found;
  Gpu elsewhere;  // devices that an earlier rank has measured already
  std::vector<std::size_t> place(own.size(), own.size());
  for (int i = 0; i < count; ++i) {
    const std::string& address = own[static_cast<std::size_t>(i)];
    if (is_for_an_earlier_rank(of_ranks, rank, {address})) continue;
    place[static_cast<std::size_t>(i)] = found.gpus.size();
    found.gpus.push_back(measure(i, address, bytes));
  }
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      const std::string &a = own[static_cast<std::size_t>(from)], &b = own[static_cast<std::size_t>(to)];
      if (from == to || is_for_an_earlier_rank(of_ranks, rank, {a, b})) continue;
      const std::size_t at = place[static_cast<std::size_t>(from)];
      found.pairs.push_back(measure_pair(from, to, own, bytes, at < found.gpus.size() ? found.gpus[at] : elsewhere));
    }
  }
  return found;
}

}  // namespace

std::vector<std::string> visible_gpus() {
  std::vector<std::string> addresses;
  for (int i = 0; i < gpu::visible_devices(); ++i) addresses.push_back(gpu::describe(i).pci_id);
  return addresses;
}

GpusOfRank measure_gpus(Communicator& node, Bytes bytes) {
  std::vector<Addresses> of_ranks;
  for (int rank = 0; rank < node.size(); ++rank) {
    of_ranks.push_back(split(broadcast_text(node, join(visible_gpus(), ","), rank), ','));
  }
  GpusOfRank found;
  for (int turn = 0; turn < node.size(); ++turn) {
    if (turn == node.rank()) found = measure_own(of_ranks, turn, bytes);
    node.barrier();
  }
  return found;
}

}  // namespace cohort::preflight
