// The shape of a job: how many nodes, and how many ranks, cores and GPUs on each, for a layout and nodes of a given size. Pure
// arithmetic.
//
// Ranks are dealt to nodes in blocks of the same size, and tp varies fastest in the mesh (mesh/mesh_shape.hpp). So a group of
// tensor-parallel ranks, which exchange activations in every layer, stays on one node exactly if tp divides the ranks of a node.
#pragma once

#include <optional>
#include <string>

#include "base/units.hpp"
#include "config/run_config.hpp"

namespace cohort {

/// What a node has, by its site profile. 0 = unknown, unless it says something else.
struct NodeLimits {
  std::string site;  // for messages
  Count cpus = 0;
  std::optional<Count> gpus;  // no value = unknown
  Count cpus_per_gpu = 0;     // cores that a rank with a GPU gets; 0 = device.threads
  Count most_nodes = 0;
};

/// What was asked for; 0 = left open.
struct ShapeRequest {
  Count ranks = 0;
  Count nodes = 0;
  Count least_nodes = 1;  // of the template
  Count most_nodes = 0;   // of the template; 0 = no limit
  std::string template_name;
};

struct JobShape {
  Count nodes = 1;
  Count tasks_per_node = 1;
  Count cpus_per_task = 1;
  Count gpus_per_node = 0;

  Count ranks() const { return nodes * tasks_per_node; }
  bool operator==(const JobShape&) const = default;
};

/// Ranks are those asked for; else the product of the run file's degrees, if dp is one of them; else as many as fill the nodes
/// that were asked for, the most that fit the mesh. Nodes are those asked for; else the fewest that hold the ranks in equal
/// shares. One rank has one GPU, or `device.threads` cores. Throws Error(config), or Error(usage) if nothing says how many ranks,
/// with the nearest numbers that fit.
JobShape shape_of_job(const RunConfig& config, const ShapeRequest& request, const NodeLimits& limits);

}  // namespace cohort
