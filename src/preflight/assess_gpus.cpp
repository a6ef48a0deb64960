#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>

#include "base/text.hpp"
#include "preflight/assess.hpp"

namespace cohort::preflight {
namespace {

using Nodes = std::vector<Node>;

// PCIe 3.0 with 8 lanes carries 7: below it a card sits in a slot, or has fallen back to lanes, that starve it.
constexpr double kSlowHostLink = 6e9;
// A card of one kind clocks like the next when both are busy.
constexpr double kClockShare = kWarnShare;

std::string name_of(const Node& node, const Gpu& gpu) { return fmt::format("{} GPU {}", node.host, gpu.pci_id); }

std::size_t gpu_count(const Nodes& nodes) {
  std::size_t count = 0;
  for (const Node& node : nodes) count += node.gpus.size();
  return count;
}

Check check_count(const Nodes& nodes) {
  Check check{"GPUs",
              fmt::format("{} on {}", gpu_count(nodes), counted(static_cast<Count>(nodes.size()), "node")),
              "as many as Slurm allocated, the same on all nodes",
              {}};
  std::vector<std::string> counts;
  for (const Node& node : nodes) counts.push_back(fmt::format("{}", node.gpus.size()));
  const std::string common = most_common(counts);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const Node& node = nodes[n];
    const auto seen = static_cast<int>(node.gpus.size());
    const std::string why = node.gpus.empty() && !node.no_gpu.empty() ? fmt::format(" ({})", node.no_gpu) : "";
    if (node.expected_gpus && seen < *node.expected_gpus) {
      check.problems.push_back({Level::fail, fmt::format("{}: {} of the {} GPUs that Slurm allocated are visible{}", node.host,
                                                         seen, *node.expected_gpus, why)});
    } else if (counts[n] != common) {
      check.problems.push_back(
          {Level::fail, fmt::format("{}: {} where the others have {}{}", node.host, counted(seen, "GPU"), common, why)});
    }
  }
  // A job on CPUs may well use a build that knows GPUs.
  if (gpu_count(nodes) == 0 && check.problems.empty()) {
    check.problems.push_back({Level::warn, fmt::format("no node has a GPU: {}", nodes.front().no_gpu)});
  }
  return check;
}

// -1, 0 or 1 as version "a" is older than, like or newer than "b": numbers separated by points. Other words count as 0.
int compare_versions(const std::string& a, const std::string& b) {
  const auto numbers = [](const std::string& version) {
    std::vector<int> parts;
    for (const std::string& part : split(version, '.'))
      std::from_chars(part.data(), part.data() + part.size(), parts.emplace_back(0));
    return parts;
  };
  const std::vector<int> of_a = numbers(a), of_b = numbers(b);
  return of_a < of_b ? -1 : of_a > of_b ? 1 : 0;
}

Check check_cuda(const Nodes& nodes) {
  Check check{"CUDA", "", "no newer than the driver's", {}};
  for (const Node& node : nodes) {
    if (node.runtime_cuda.empty()) continue;
    check.value = fmt::format("{}, driver's {}", node.runtime_cuda, node.driver_cuda);
    const std::string program_major = split(node.runtime_cuda, '.').front();
    if (compare_versions(program_major, split(node.driver_cuda + ".", '.').front()) > 0) {
      check.problems.push_back(
          {Level::fail, fmt::format("{}: the driver knows CUDA {}, and Cohort was built with {}: update the driver, "
                                    "or build with an older toolkit",
                                    node.host, node.driver_cuda, node.runtime_cuda)});
    } else if (compare_versions(node.runtime_cuda, node.driver_cuda) > 0) {
      check.problems.push_back(
          {Level::warn, fmt::format("{}: the driver knows CUDA {}, and Cohort was built with {}: kernels that "
                                    "are compiled at run time may fail",
                                    node.host, node.driver_cuda, node.runtime_cuda)});
    }
  }
  return check;
}

std::vector<Measured> figures_of(const Nodes& nodes, const std::function<double(const Gpu&)>& value) {
  std::vector<Measured> figures;
  for (const Node& node : nodes) {
    for (const Gpu& gpu : node.gpus) figures.push_back({name_of(node, gpu), value(gpu)});
  }
  return figures;
}

Check check_health(const Nodes& nodes) {
  Check check{"GPU health", "", "no uncorrected memory errors, no hardware slowdown", {}};
  int hottest = 0;
  for (const Node& node : nodes) {
    for (const Gpu& gpu : node.gpus) {
      const auto say = [&](Level level, const std::string& what) {
        check.problems.push_back({level, fmt::format("{}: {}", name_of(node, gpu), what)});
      };
      hottest = std::max(hottest, gpu.celsius.value_or(0));
      if (!gpu.problem.empty()) say(Level::fail, gpu.problem);
      if (gpu.remap_failed) say(Level::fail, "no spare memory rows left: have the card replaced");
      if (gpu.remap_pending) say(Level::warn, "a faulty memory row is remapped at the next reset of the card");
      if (gpu.uncorrected_errors.value_or(0) > 0) {
        say(Level::warn,
            fmt::format("{} since the driver was loaded", counted(*gpu.uncorrected_errors, "uncorrected memory error")));
      }
      if (gpu.slowed_by_fault) {
        say(Level::fail, fmt::format("its clock is throttled by {}: check its cooling and power", join(gpu.slowed, " and ")));
      }
    }
  }
  check.value = hottest > 0 ? fmt::format("{} C or less", hottest) : "unknown (no NVML)";
  return check;
}

Check check_gpu_clocks(const Nodes& nodes) {
  const auto clocks = figures_of(nodes, [](const Gpu& gpu) { return static_cast<double>(gpu.clock_mhz.value_or(0)); });
  Check check{"GPU clocks", "", fmt::format("{} of the others' median, under load", kClockShare), {}};
  double least = 0.0;
  for (const Measured& clock : clocks) {
    if (clock.value > 0.0) least = least == 0.0 ? clock.value : std::min(least, clock.value);
  }
  for (const Outlier& outlier : low_outliers(clocks, kClockShare)) {
    check.problems.push_back(
        {Level::warn, fmt::format("{}: {:.0f} MHz where the others have {:.0f} (median)", clocks[outlier.index].where,
                                  clocks[outlier.index].value, outlier.others_median)});
  }
  check.value = least > 0.0 ? fmt::format("{:.0f} MHz or more", least) : "unknown (no NVML)";
  return check;
}

// Pairs that have the same place in the lists of their nodes are alike; pairs of one node need not be, for some may have NVLink
// and some not.
std::vector<Check> check_pairs(const Nodes& nodes) {
  Check peers{"peer access", "", "between all GPUs of a node", {}};
  std::map<std::size_t, std::vector<Measured>> by_place;
  std::size_t pairs = 0;
  std::size_t direct = 0;
  for (const Node& node : nodes) {
    for (std::size_t place = 0; place < node.pairs.size(); ++place) {
      const GpuPair& pair = node.pairs[place];
      by_place[place].push_back({fmt::format("{} GPU {} to {}", node.host, pair.from, pair.to), pair.speed});
      ++pairs;
      direct += pair.peer_access ? 1 : 0;
      if (pair.peer_access) continue;
      peers.problems.push_back({Level::warn, fmt::format("{}: GPU {} cannot access {} directly: data goes through the host",
                                                         node.host, pair.from, pair.to)});
    }
  }
  if (pairs == 0) return {};
  peers.value = fmt::format("{} of {} pairs", direct, pairs);
  Check speeds{"GPU to GPU", "", "", {}};
  std::vector<Measured> all;
  for (const auto& [place, figures] : by_place) {
    const Check of_place = check_speeds("", figures, 0.0);
    speeds.limit = of_place.limit;
    speeds.problems.insert(speeds.problems.end(), of_place.problems.begin(), of_place.problems.end());
    all.insert(all.end(), figures.begin(), figures.end());
  }
  const Check in_all = check_speeds("", all, 0.0, /*outliers_fail=*/false);
  speeds.value = in_all.value;
  if (nodes.size() == 1) {  // nothing alike to compare with
    speeds.limit = in_all.limit;
    speeds.problems = in_all.problems;
  }
  return {peers, speeds};
}

Check check_nccl(const Measurements& all) {
  Check check{"NCCL all-reduce", all.nccl > 0.0 ? speed_text(all.nccl) + " bus bandwidth" : "", "that it works", {}};
  if (!all.gpu_places.empty()) check.problems.push_back({Level::fail, all.gpu_places});
  if (!all.nccl_problem.empty()) check.problems.push_back({Level::fail, all.nccl_problem});
  return check;
}

}  // namespace

std::vector<Check> assess_gpus(const Measurements& all) {
  if (!all.cuda) return {};
  const Nodes& nodes = all.nodes;
  std::vector<Check> checks{check_count(nodes)};
  if (gpu_count(nodes) == 0) return checks;
  std::vector<std::string> hosts, drivers, nccls;
  for (const Node& node : nodes) {
    hosts.push_back(node.host);
    drivers.push_back(node.driver);
    nccls.push_back(node.nccl);
  }
  checks.push_back(check_same("driver", hosts, drivers, Level::warn));
  checks.push_back(check_cuda(nodes));
  checks.push_back(check_same("NCCL", hosts, nccls, Level::fail));
  checks.push_back(check_health(nodes));
  checks.push_back(check_gpu_clocks(nodes));
  checks.push_back(check_speeds("GPU memory", figures_of(nodes, [](const Gpu& gpu) { return gpu.memory; }), 0.0));
  checks.push_back(check_speeds("host to GPU", figures_of(nodes, [](const Gpu& gpu) { return gpu.to_device; }), kSlowHostLink));
  checks.push_back(check_speeds("GPU to host", figures_of(nodes, [](const Gpu& gpu) { return gpu.from_device; }), kSlowHostLink));
  for (Check& check : check_pairs(nodes)) checks.push_back(std::move(check));
  checks.push_back(check_nccl(all));
  return checks;
}

}  // namespace cohort::preflight
