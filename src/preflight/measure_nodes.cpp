#include "preflight/measure_nodes.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"
#include "comm/consensus.hpp"
#include "comm/device_benchmark.hpp"
#include "comm/nccl_communicator.hpp"
#include "gpu/device.hpp"
#include "observe/flight_recorder.hpp"
#include "preflight/disk.hpp"
#include "preflight/gpu_facts.hpp"
#include "preflight/measurements_json.hpp"
#include "preflight/network.hpp"
#include "preflight/node_facts.hpp"
#include "runtime/device_choice.hpp"
#include "runtime/topology.hpp"

namespace cohort::preflight {
namespace {

constexpr int kRoundTrips = 30;  // for a clock: the fastest of them is rarely disturbed
// All pairs of 16 nodes; of more nodes each meets 15 others, which is enough to tell a bad node.
constexpr int kMostRounds = 15;
constexpr double kDiskSeconds = 5.0;

// The first rank of each node, by number of the node.
std::vector<int> first_ranks(const std::vector<int>& node_of_rank) {
  std::map<int, int> first;
  for (std::size_t rank = 0; rank < node_of_rank.size(); ++rank) first.try_emplace(node_of_rank[rank], static_cast<int>(rank));
  std::vector<int> ranks;
  for (const auto& [node, rank] : first) ranks.push_back(rank);
  return ranks;
}

// The next rank of the same node; the number of ranks if there is none.
int rank_after(const std::vector<int>& node_of_rank, int rank) {
  int next = rank + 1;
  while (next < static_cast<int>(node_of_rank.size()) &&
         node_of_rank[static_cast<std::size_t>(next)] != node_of_rank[static_cast<std::size_t>(rank)]) {
    ++next;
  }
  return next;
}

std::vector<int> nodes_of_ranks(Communicator& world, int own_node) {
  std::vector<std::int32_t> nodes(static_cast<std::size_t>(world.size()));
  const std::int32_t own = own_node;
  world.all_gather(&own, nodes.data(), 1, DType::i32);
  return {nodes.begin(), nodes.end()};
}

void measure_clocks(Communicator& world, const std::vector<int>& leaders, Node& own) {
  std::vector<double> clocks(2 * leaders.size());  // offset and error of each node, known to rank 0
  for (std::size_t n = 1; n < leaders.size(); ++n) {
    if (world.rank() != leaders[0] && world.rank() != leaders[n]) continue;
    const ClockOffset clock = measure_clock(world, leaders[0], leaders[n], kRoundTrips);
    clocks[2 * n] = clock.offset;
    clocks[2 * n + 1] = clock.error;
  }
  broadcast(world, std::span(clocks), leaders[0]);
  for (std::size_t n = 0; n < leaders.size(); ++n) {
    if (world.rank() != leaders[n]) continue;
    own.clock_offset = clocks[2 * n];
    own.clock_error = clocks[2 * n + 1];
  }
}

// Whether ranks and GPUs fit together as training wants them; why not, in words for all ranks. // Collective over: world
std::string check_places(const Runtime& runtime, Communicator& world) {
  const std::vector<std::string> own = visible_gpus();
  const nlohmann::ordered_json packed{{"host", runtime.host()},
                                      {"local_rank", runtime.local_rank()},
                                      {"gpus", own},
                                      {"why", own.empty() ? gpu::why_no_device() : ""}};
  std::vector<RankDevices> all;
  for (const std::string& text : gather_texts(world, packed.dump(), 0)) {
    const auto json = nlohmann::ordered_json::parse(text);
    all.push_back({static_cast<int>(all.size()), json.at("host"), json.at("local_rank"), json.at("gpus"), json.at("why")});
  }
  std::string problem;
  if (world.rank() == 0) {
    if (const std::optional<Error> error = check_devices(all, /*share=*/false)) problem = error->what();
  }
  return broadcast_text(world, problem, 0);
}

// Collective over: world
void measure_nccl(Runtime& runtime, Communicator& world, bool quick, Measurements& all) {
  if (all_reduce_value(world, static_cast<std::int32_t>(gpu::visible_devices()), ReduceOp::max) == 0) return;
  all.gpu_places = check_places(runtime, world);
  if (!all.gpu_places.empty()) return;
  FlightRecorder::of_process().set_activity("measuring NCCL");
  try {
    runtime.open_device(DeviceKind::gpu);
    const std::unique_ptr<Communicator> devices = make_nccl_communicator(world, "world");
    const Bytes bytes = quick ? 64 * kMiB : 256 * kMiB;
    run_device_benchmark(*devices, world, {.min_bytes = bytes, .max_bytes = bytes, .repeats = 5},
                         [&](const std::vector<DeviceTiming>& timings) { all.nccl = timings.front().bus_bytes_per_second; });
  } catch (const SharedError& error) {  // all ranks have it, and continue together
    all.nccl_problem = error.what();
  }
}

}  // namespace

void measure_network(Communicator& world, const std::vector<int>& node_of_rank, bool quick, Node& own) {
  const std::vector<int> leaders = first_ranks(node_of_rank);
  FlightRecorder::of_process().set_activity("comparing clocks");
  measure_clocks(world, leaders, own);
  FlightRecorder::of_process().set_activity("measuring messages");
  MessageSizes sizes;
  if (quick) sizes = {.small_messages = 30, .large_messages = 3, .large_bytes = kMiB};

  // Within nodes: all at once, they share nothing.
  const int own_node = node_of_rank[static_cast<std::size_t>(world.rank())];
  const int leader = leaders[static_cast<std::size_t>(own_node)];
  const int second = rank_after(node_of_rank, leader);
  if (second < world.size() && (world.rank() == leader || world.rank() == second)) {
    Link link = measure_link(world, leader, second, sizes);
    link.a = link.b = own_node;
    if (world.rank() == leader) own.links.push_back(link);
  }
  world.barrier();

  for (const auto& round : rounds_of_pairs(static_cast<int>(leaders.size()), quick ? 2 : kMostRounds)) {
    for (const auto& [a, b] : round) {
      const int rank_a = leaders[static_cast<std::size_t>(a)], rank_b = leaders[static_cast<std::size_t>(b)];
      if (world.rank() != rank_a && world.rank() != rank_b) continue;
      Link link = measure_link(world, rank_a, rank_b, sizes);
      link.a = a;
      link.b = b;
      if (world.rank() == rank_a) own.links.push_back(link);
    }
    world.barrier();
  }
}

std::vector<Node> merge(const std::vector<Node>& of_ranks) {
  std::map<int, Node> nodes;
  for (const Node& found : of_ranks) {
    Node& node = nodes[found.number];
    std::vector<Gpu> gpus = std::move(node.gpus);
    std::vector<GpuPair> pairs = std::move(node.pairs);
    gpus.insert(gpus.end(), found.gpus.begin(), found.gpus.end());
    pairs.insert(pairs.end(), found.pairs.begin(), found.pairs.end());
    if (node.host.empty()) node = found;
    node.gpus = std::move(gpus);
    node.pairs = std::move(pairs);
  }
  std::vector<Node> merged;
  for (auto& [number, node] : nodes) {
    std::sort(node.gpus.begin(), node.gpus.end(), [](const Gpu& a, const Gpu& b) { return a.pci_id < b.pci_id; });
    std::sort(node.pairs.begin(), node.pairs.end(),
              [](const GpuPair& a, const GpuPair& b) { return std::pair(a.from, a.to) < std::pair(b.from, b.to); });
    merged.push_back(std::move(node));
  }
  return merged;
}

Measurements measure(Runtime& runtime, Communicator& world, const Options& options) {
  Measurements all;
  all.ranks = world.size();
  all.cuda = gpu::built();
  const bool leads = runtime.local_rank() == 0;
  Node own;
  own.number = runtime.node_rank();
  if (leads) {
    own = describe_node(runtime, options.program);
    FlightRecorder::of_process().set_activity("measuring the disk");
    const std::string name = fmt::format(".cohort-preflight.{}.{}", own.host, own.number);
    own.disk = measure_disk(options.disk, name, (options.quick ? 32 : 256) * kMiB, options.quick ? 1.0 : kDiskSeconds);
  }
  world.barrier();
  measure_network(world, nodes_of_ranks(world, runtime.node_rank()), options.quick, own);

  FlightRecorder::of_process().set_activity("measuring GPUs");
  const std::unique_ptr<Communicator> node = world.split(runtime.node_rank(), world.rank(), "node");
  GpusOfRank gpus = measure_gpus(*node, (options.quick ? 64 : 256) * kMiB);
  own.gpus = std::move(gpus.gpus);
  own.pairs = std::move(gpus.pairs);

  std::vector<Node> of_ranks;
  for (const std::string& text : gather_texts(world, to_json(own).dump(), 0)) {
    of_ranks.push_back(node_from_json(nlohmann::ordered_json::parse(text)));
  }
  all.nodes = merge(of_ranks);
  std::map<int, std::set<int>> cores;
  const std::vector<Place> places = gather_places(runtime);
  for (const Place& place : places) cores[place.node_rank].insert(place.cores.begin(), place.cores.end());
  for (Node& merged : all.nodes) merged.cores = static_cast<int>(cores[merged.number].size());
  all.bindings = cohort::check_places(places).warnings;
  measure_nccl(runtime, world, options.quick, all);
  return all;
}

}  // namespace cohort::preflight
