#include "jobs/job_shape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/nearest.hpp"
#include "mesh/mesh_shape.hpp"

namespace cohort {
namespace {

constexpr Count kMostRanks = 1 << 20;  // beyond any machine; keeps searches short
constexpr Count kNoLimit = std::numeric_limits<int>::max();

// All that the search for a shape needs to know.
struct Problem {
  Count model = 1;  // pp cp tp: ranks of one copy of the model
  Count tp = 1;
  Count slots = kNoLimit;  // most ranks of a node
  Count cpus_per_rank = 1;
  bool on_gpus = false;
  Count least_nodes = 1;
  Count most_nodes = kNoLimit;
};

Count smaller_limit(Count a, Count b) { return std::min(a == 0 ? kNoLimit : a, b == 0 ? kNoLimit : b); }

Problem problem_of(const RunConfig& config, const ShapeRequest& request, const NodeLimits& limits) {
  Problem problem;
  const ParallelSection& p = config.parallel;
  problem.model = MeshShape(1, p.pp, p.cp, p.tp).world();
  problem.tp = p.tp;
  problem.on_gpus = config.device.kind == "cuda";
  problem.cpus_per_rank = problem.on_gpus && limits.cpus_per_gpu > 0 ? limits.cpus_per_gpu : config.device.threads;
  problem.least_nodes = request.nodes > 0 ? request.nodes : request.least_nodes;
  problem.most_nodes = request.nodes > 0 ? request.nodes : smaller_limit(request.most_nodes, limits.most_nodes);
  if (problem.on_gpus && limits.gpus == Count{0}) {
    fail(ExitCode::config, "device.kind = \"cuda\", but site {} has no GPUs: choose another --site, or --set device.kind=cpu",
         limits.site);
  }
  if (limits.cpus > 0) {
    if (problem.cpus_per_rank > limits.cpus) {
      fail(ExitCode::config, "each rank needs {} ({}), but a node of site {} has {}: at most {} fit",
           counted(problem.cpus_per_rank, "core"), problem.on_gpus ? "CPUS_PER_GPU" : "device.threads", limits.site, limits.cpus,
           limits.cpus);
    }
    problem.slots = limits.cpus / problem.cpus_per_rank;
  }
  if (problem.on_gpus && limits.gpus) problem.slots = std::min(problem.slots, *limits.gpus);
  return problem;
}

void check_nodes(const ShapeRequest& request, const NodeLimits& limits) {
  if (request.nodes == 0) return;
  if (request.nodes < request.least_nodes)
    fail(ExitCode::config, "template {} is for {} or more, not for {}: `cohort job --list` shows the others",
         request.template_name, counted(request.least_nodes, "node"), request.nodes);
  if (request.most_nodes > 0 && request.nodes > request.most_nodes)
    fail(ExitCode::config, "template {} is for {}, not for {}: `cohort job --list` shows the others", request.template_name,
         counted(request.most_nodes, "node"), request.nodes);
  if (limits.most_nodes > 0 && request.nodes > limits.most_nodes)
    fail(ExitCode::config, "{} nodes, but jobs of site {} have at most {} (NODES_MAX)", request.nodes, limits.site,
         limits.most_nodes);
}

bool fits_on(const Problem& problem, Count ranks, Count nodes) {
  return ranks % nodes == 0 && ranks / nodes <= problem.slots && ranks / nodes % problem.tp == 0;
}

// The fewest nodes that hold the ranks; 0 if no number does.
Count nodes_for(const Problem& problem, Count ranks) {
  for (Count nodes = problem.least_nodes; nodes <= std::min(problem.most_nodes, ranks); ++nodes) {
    if (fits_on(problem, ranks, nodes)) return nodes;
  }
  return 0;
}

// The most ranks that fill the nodes asked for, in a layout whose dp is open.
Count ranks_filling(const Problem& problem, Count nodes, const NodeLimits& limits) {
  if (problem.slots == kNoLimit) {
    fail(ExitCode::usage, "site {} does not say how many {} a node has ({}): give --ranks with --nodes {}", limits.site,
         problem.on_gpus ? "GPUs" : "CPUs", problem.on_gpus ? "GPUS_PER_NODE" : "CPUS_PER_NODE", nodes);
  }
  for (Count each = problem.slots; each >= 1; --each) {
    if (each % problem.tp == 0 && nodes * each % problem.model == 0) return nodes * each;
  }
  return nodes * problem.slots;  // nothing fits: the message is that of any number that does not
}

Count ranks_of(const RunConfig& config, const Problem& problem, const ShapeRequest& request, const NodeLimits& limits) {
  if (request.ranks > 0) return request.ranks;
  if (config.parallel.dp > 0) return MeshShape(config.parallel.dp, 1, 1, 1).world() * problem.model;
  if (request.nodes > 0) return ranks_filling(problem, request.nodes, limits);
  const std::string multiple = problem.model == 1 ? "" : fmt::format(" (a multiple of {}, pp x cp x tp)", problem.model);
  fail(ExitCode::usage, "the number of ranks is open, as parallel.dp is not set: give --ranks{}, or --nodes to fill them",
       multiple);
}

std::string node_has(const Problem& problem, const NodeLimits& limits) {
  if (problem.slots == kNoLimit) return "any number of ranks";
  const std::string cores = counted(problem.cpus_per_rank, "core");
  return fmt::format("at most {} (site {}: {} CPUs{}, a rank uses {}{})", counted(problem.slots, "rank"), limits.site,
                     limits.cpus == 0 ? "unknown" : fmt::to_string(limits.cpus),
                     problem.on_gpus && limits.gpus ? " and " + counted(*limits.gpus, "GPU") : "", cores,
                     problem.on_gpus ? " and a GPU" : "");
}

[[noreturn]] void refuse(const Problem& problem, Count ranks, const NodeLimits& limits) {
  if (problem.tp > problem.slots) {
    const auto fits = [&](Count tp) { return tp <= problem.slots && ranks % tp == 0; };
    fail(ExitCode::config,
         "parallel.tp = {}, but a node holds {}: ranks that share each matrix must share a node. Nearest tp: {}; use pp for the "
         "rest of the model",
         problem.tp, node_has(problem, limits), nearest_fits(problem.tp, problem.slots, fits));
  }
  const std::string nodes = problem.most_nodes == problem.least_nodes ? counted(problem.least_nodes, "node")
                            : problem.most_nodes == kNoLimit
                                ? fmt::format("{} or more nodes", problem.least_nodes)
                                : fmt::format("{} to {} nodes", problem.least_nodes, problem.most_nodes);
  const auto fits = [&](Count other) { return other % problem.model == 0 && nodes_for(problem, other) > 0; };
  // Beyond that nothing fits, or something nearer did.
  const Count high = std::min(kMostRanks, 2 * ranks + 2 * problem.model * problem.least_nodes);
  fail(ExitCode::config, "{} cannot be spread evenly over {}, each with {}{}. Nearest numbers of ranks that can: {}",
       counted(ranks, "rank"), nodes, node_has(problem, limits),
       problem.tp > 1 ? fmt::format(" and whole groups of tp = {}", problem.tp) : "", nearest_fits(ranks, high, fits));
}

}  // namespace

JobShape shape_of_job(const RunConfig& config, const ShapeRequest& request, const NodeLimits& limits) {
  check_nodes(request, limits);
  const Problem problem = problem_of(config, request, limits);
  const Count ranks = ranks_of(config, problem, request, limits);
  if (ranks > kMostRanks) fail(ExitCode::config, "{} ranks are more than the {} that a job can have", ranks, kMostRanks);
  const ParallelSection& p = config.parallel;
  resolve_mesh(p.dp, p.pp, p.cp, p.tp, static_cast<int>(ranks));  // refuses ranks that are no multiple of the model's
  const Count nodes = nodes_for(problem, ranks);
  if (nodes == 0) refuse(problem, ranks, limits);
  const Count tasks = ranks / nodes;
  return {nodes, tasks, problem.cpus_per_rank, problem.on_gpus ? tasks : 0};
}

}  // namespace cohort
