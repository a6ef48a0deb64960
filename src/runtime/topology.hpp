// Where the ranks of the job are: gathered from a running job, or computed for one that was not started.
#pragma once

#include <string>
#include <vector>

#include "base/units.hpp"
#include "runtime/affinity.hpp"
#include "runtime/runtime.hpp"

namespace cohort {

/// One rank of the running job.
struct Place {
  int rank = 0;
  std::string host;
  int node_rank = 0;
  int local_rank = 0;
  std::vector<int> cores;  // that it may run on
  int online = 0;          // cores of its machine
  std::string device;
};

/// All places in rank order on rank 0; empty on the others. // Collective over: world
std::vector<Place> gather_places(const Runtime& runtime);

BindingFindings check_places(const std::vector<Place>& places);

/// What a user should know before a long run: Runtime::warnings() and the warnings about bindings. On rank 0; empty on the
/// others.
// Collective over: world
std::vector<std::string> startup_warnings(const Runtime& runtime);

/// The ranks first .. first + count - 1 of a world.
struct NodeRanks {
  int first = 0;
  int count = 0;
  int world_size = 0;
};

/// The ranks of one node when ranks fill node after node (block order, the default of srun and mpirun). Throws Error(usage)
/// naming the valid range of the argument that is out of it.
NodeRanks ranks_of_node(Count nodes, Count ranks_per_node, Count node);

}  // namespace cohort
