#include "preflight/assess.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/text.hpp"

namespace cohort::preflight {
namespace {

using Nodes = std::vector<Node>;

// Below this gradients of a billion parameters take half a minute a step: Gigabit Ethernet has 0.12 GB/s.
constexpr double kSlowNetwork = 0.2e9;
// A spinning disk writes 0.1 to 0.2 GB/s; below this a checkpoint of a billion parameters (12 GB) takes four minutes.
constexpr double kSlowDisk = 0.05e9;
constexpr Bytes kLittleDisk = 10 * kGiB;
// Logs of several nodes are merged by their times: a step is rarely shorter. Files whose age matters (locks) take more.
constexpr double kSkewWarn = 0.1;
constexpr double kSkewFail = 10.0;
// A latency that is twice that of the others is another way through the network, or a busy node.
constexpr double kLatencyFactor = 2.0;
// Of shared memory a rank takes 4 to 16 MiB with Open MPI and some 10 MiB for each of NCCL's peers.
constexpr Bytes kShmFail = 16 * kMiB;
constexpr Bytes kShmWarn = 64 * kMiB;
constexpr Bytes kLittleMemory = kGiB;  // a rank: MPI, HDF5, token files, and a small model
// Files, pipes and sockets of a process beside one connection for each rank of the job.
constexpr Count kFilesOfProcess = 256;

std::vector<std::string> of_nodes(const Nodes& nodes, const std::function<std::string(const Node&)>& text) {
  std::vector<std::string> texts;
  for (const Node& node : nodes) texts.push_back(text(node));
  return texts;
}

std::vector<Measured> figures_of(const Nodes& nodes, const std::function<double(const Node&)>& value) {
  std::vector<Measured> figures;
  for (const Node& node : nodes) figures.push_back({node.host, value(node)});
  return figures;
}

bool any(const std::vector<Measured>& figures) {
  return std::any_of(figures.begin(), figures.end(), [](const Measured& figure) { return figure.value > 0.0; });
}

std::string least_bytes(const Nodes& nodes, Bytes Node::*figure) {
  const auto least =
      std::min_element(nodes.begin(), nodes.end(), [&](const Node& a, const Node& b) { return a.*figure < b.*figure; });
  return fmt::format("{} or more", human_bytes((*least).*figure));
}

Check check_cores(const Measurements& all) {
  const auto fewer = [](const Node& a, const Node& b) { return a.cores < b.cores; };
  const int least = std::min_element(all.nodes.begin(), all.nodes.end(), fewer)->cores;
  Check check{"cores", fmt::format("{} or more per node", least), "one a rank, and not another's", {}};
  for (const std::string& warning : all.bindings) check.problems.push_back({Level::warn, warning});
  return check;
}

Check check_memory(const Nodes& nodes) {
  Check check{"memory",
              least_bytes(nodes, &Node::memory_available) + " available",
              fmt::format("{} per rank, {} of the others' median", human_bytes(kLittleMemory), kFailShare),
              {}};
  const auto figures = figures_of(nodes, [](const Node& node) { return static_cast<double>(node.memory_available); });
  for (const Outlier& outlier : low_outliers(figures, kFailShare)) {
    const Node& node = nodes[outlier.index];
    check.problems.push_back(
        {Level::warn, fmt::format("{}: {} available where the others have {} (median): what else runs there?", node.host,
                                  human_bytes(node.memory_available), human_bytes(static_cast<Bytes>(outlier.others_median)))});
  }
  for (const Node& node : nodes) {
    if (node.memory_available >= kLittleMemory * node.ranks) continue;
    check.problems.push_back({Level::warn, fmt::format("{}: {} available for {}", node.host, human_bytes(node.memory_available),
                                                       counted(node.ranks, "rank"))});
  }
  return check;
}

Check check_shm(const Nodes& nodes) {
  Check check{"/dev/shm",
              least_bytes(nodes, &Node::shm_free) + " free",
              fmt::format("{} and {} per rank", human_bytes(kShmWarn), human_bytes(kShmFail)),
              {}};
  for (const Node& node : nodes) {
    if (node.shm_free >= kShmWarn * node.ranks) continue;
    const Level level = node.shm_free < kShmFail * node.ranks ? Level::fail : Level::warn;
    check.problems.push_back(
        {level, fmt::format("{}: {} of {} are free for {}: MPI and NCCL pass messages through it. Delete leftovers there, or "
                            "give the container more (docker --shm-size, apptainer binds the host's)",
                            node.host, human_bytes(node.shm_free), human_bytes(node.shm_total), counted(node.ranks, "rank"))});
  }
  return check;
}

Check check_limits(const Measurements& all) {
  const Count need = all.ranks + kFilesOfProcess;
  Check check{"limits", "", fmt::format("open files (ulimit -n) {}; locked memory (-l) unlimited with InfiniBand", need), {}};
  std::optional<Count> least;
  for (const Node& node : all.nodes) {
    if (node.open_files) least = std::min(least.value_or(*node.open_files), *node.open_files);
    if (node.open_files && *node.open_files < need) {
      check.problems.push_back({Level::fail, fmt::format("{}: ulimit -n is {}, but a job of {} needs {}", node.host,
                                                         *node.open_files, counted(all.ranks, "rank"), need)});
    }
    if (node.locked_memory && !node.fabric.empty()) {
      check.problems.push_back(
          {Level::warn, fmt::format("{}: ulimit -l is {} although there is InfiniBand, whose buffers are locked memory: MPI and "
                                    "NCCL may fall back to TCP. Set it to unlimited (limits.conf, slurmd's LimitMEMLOCK)",
                                    node.host, human_bytes(*node.locked_memory))});
    }
  }
  check.value = least ? fmt::format("open files {} or more", *least) : "open files unlimited";
  return check;
}

Check check_clocks(const Nodes& nodes) {
  Check check{"clock skew", "", fmt::format("{} and {}", time_text(kSkewWarn), time_text(kSkewFail)), {}};
  double most = 0.0;
  double error = 0.0;
  for (const Node& node : nodes) {
    most = std::max(most, std::abs(node.clock_offset));
    error = std::max(error, node.clock_error);
    const double certain = std::abs(node.clock_offset) - node.clock_error;
    if (certain < kSkewWarn) continue;
    check.problems.push_back(
        {certain < kSkewFail ? Level::warn : Level::fail,
         fmt::format("{}: its clock is {} {} that of {} (within {}): is its time service (chrony, ntpd) running?", node.host,
                     time_text(std::abs(node.clock_offset)), node.clock_offset > 0.0 ? "ahead of" : "behind", nodes.front().host,
                     time_text(node.clock_error))});
  }
  check.value = fmt::format("{} or less, within {}", time_text(most), time_text(error));
  return check;
}

std::vector<Check> check_disks(const Nodes& nodes) {
  Check space{"disk space", "", human_bytes(kLittleDisk), {}};
  std::optional<Bytes> least;
  for (const Node& node : nodes) {
    if (!node.disk) continue;
    if (!node.disk->problem.empty()) {
      space.problems.push_back({Level::fail, fmt::format("{}: {}", node.host, node.disk->problem)});
      continue;
    }
    least = std::min(least.value_or(node.disk->free), node.disk->free);
    if (node.disk->free >= kLittleDisk) continue;
    space.problems.push_back({Level::warn, fmt::format("{}: {} are free in {}: a checkpoint has 12 bytes for each parameter",
                                                       node.host, human_bytes(node.disk->free), node.disk->folder)});
  }
  if (!least && space.problems.empty()) return {};
  space.value = least ? fmt::format("{} or more free", human_bytes(*least)) : "none";
  std::vector<Check> checks{space};
  const auto writes = figures_of(nodes, [](const Node& node) { return node.disk ? node.disk->write : 0.0; });
  const auto reads = figures_of(nodes, [](const Node& node) { return node.disk ? node.disk->read : 0.0; });
  // All nodes write at once, and a shared disk does not serve all alike: outliers warn alone.
  if (any(writes)) checks.push_back(check_speeds("disk write", writes, kSlowDisk, /*outliers_fail=*/false));
  if (any(reads)) checks.push_back(check_speeds("disk read", reads, kSlowDisk, /*outliers_fail=*/false));
  return checks;
}

// The median over the links of each node to others: a bad node is slow with all, and stands out.
std::vector<Measured> network_figures(const Nodes& nodes, double Link::*figure) {
  std::vector<std::vector<double>> of_node(nodes.size());
  for (const Node& node : nodes) {
    for (const Link& link : node.links) {
      if (link.a == link.b) continue;
      of_node[static_cast<std::size_t>(link.a)].push_back(link.*figure);
      of_node[static_cast<std::size_t>(link.b)].push_back(link.*figure);
    }
  }
  std::vector<Measured> figures;
  for (std::size_t n = 0; n < nodes.size(); ++n)
    figures.push_back({nodes[n].host, of_node[n].empty() ? 0.0 : median(of_node[n])});
  return figures;
}

std::vector<Measured> within_nodes(const Nodes& nodes, double Link::*figure) {
  return figures_of(nodes, [&](const Node& node) {
    for (const Link& link : node.links) {
      if (link.a == link.b) return link.*figure;
    }
    return 0.0;
  });
}

void add_latency(Check& check, const std::vector<Measured>& latencies) {
  for (const Outlier& outlier : high_outliers(latencies, kLatencyFactor)) {
    check.problems.push_back(
        {Level::warn, fmt::format("{}: latency {} where the others have {} (median)", latencies[outlier.index].where,
                                  time_text(latencies[outlier.index].value), time_text(outlier.others_median))});
  }
  std::vector<double> known;
  for (const Measured& latency : latencies) {
    if (latency.value > 0.0) known.push_back(latency.value);
  }
  check.value += fmt::format(", {}", time_text(median(known)));
  check.limit += fmt::format(", latency {} times it", kLatencyFactor);
}

void add_network(std::vector<Check>& checks, const Nodes& nodes) {
  const auto within = within_nodes(nodes, &Link::speed);
  if (any(within)) {
    checks.push_back(check_speeds("MPI in a node", within, 0.0));
    add_latency(checks.back(), within_nodes(nodes, &Link::latency));
  }
  const auto between = network_figures(nodes, &Link::speed);
  if (any(between)) {
    checks.push_back(check_speeds("MPI between nodes", between, kSlowNetwork));
    add_latency(checks.back(), network_figures(nodes, &Link::latency));
  }
}

}  // namespace

std::vector<Check> assess(const Measurements& all) {
  const Nodes& nodes = all.nodes;
  const std::vector<std::string> hosts = of_nodes(nodes, [](const Node& node) { return node.host; });
  const auto same = [&](const char* name, const std::function<std::string(const Node&)>& text, Level level) {
    return check_same(name, hosts, of_nodes(nodes, text), level);
  };
  std::vector<Check> checks;
  checks.push_back(same(
      "Cohort", [](const Node& node) { return node.program; }, Level::fail));
  checks.push_back(same(
      "MPI", [](const Node& node) { return node.mpi; }, Level::fail));
  checks.push_back(same(
      "settings", [](const Node& node) { return node.transports; }, Level::warn));
  checks.push_back(same(
      "fabric", [](const Node& node) { return join(node.fabric); }, Level::warn));
  checks.push_back(check_cores(all));
  checks.push_back(check_memory(nodes));
  checks.push_back(check_shm(nodes));
  checks.push_back(check_limits(all));
  if (nodes.size() > 1) checks.push_back(check_clocks(nodes));
  for (Check& check : check_disks(nodes)) checks.push_back(std::move(check));
  add_network(checks, nodes);
  for (Check& check : assess_gpus(all)) checks.push_back(std::move(check));
  return checks;
}

std::vector<std::string> problems_of(const std::vector<Check>& checks, Level level) {
  std::vector<std::string> lines;
  for (const Check& check : checks) {
    for (const Problem& problem : check.problems) {
      if (problem.level == level) lines.push_back(fmt::format("{}: {}", check.name, problem.text));
    }
  }
  return lines;
}

}  // namespace cohort::preflight
