// Lab 0: who am I? Ranks, nodes, and what a launcher says of them. All are counted from 0.
#pragma once

#include <cohort/lab.hpp>
#include <cstddef>
#include <span>
#include <string_view>

namespace cohort::lab {

/// How a launcher deals out ranks to nodes.
enum class Distribution {
  block,  // fills node after node: the default of mpirun and, on most sites, of srun
  cyclic  // one rank to each node in turn, and again; nodes that are full are left out (srun -m cyclic, mpirun --map-by node)
};

struct Place {
  int node;
  int local_rank;  // among the ranks of its node, in the order of their ranks
};

/// One variable of a process's environment, as OMPI_COMM_WORLD_RANK and "3".
struct Variable {
  std::string_view name, value;
};

/// What a process knows of itself.
struct Identity {
  int rank, world_size, local_rank, node;
};

}  // namespace cohort::lab

extern "C" {

/// 0.1: the ranks of one node, where each of `nodes` nodes runs as many as `ranks` has room for, in block distribution: in
/// ascending order into `ranks`. False, and nothing written, if the job has no such node.
bool ranks_of_node(int nodes, int node, std::span<int> ranks);

/// 0.2: where a rank is. Nodes need not be equal: node i runs ranks_on_node[i] ranks, which may be none. `rank` is one of them.
cohort::lab::Place place_of_rank(std::span<const int> ranks_on_node, cohort::lab::Distribution distribution, int rank);

/// 0.3: what the launcher says in the environment. Where Open MPI's mpirun has started the process (OMPI_COMM_WORLD_RANK is
/// there, even if SLURM's variables are, too) it is
///   OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_RANK, and OMPI_COMM_WORLD_LOCAL_SIZE, the ranks of this
///   node: no variable has the node itself. With as many ranks on each node, in block distribution, it follows from the rank;
/// else it is SLURM's
///   SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_NODEID.
/// Returns an empty text, and all of `identity` set; or the name of the first of the four variables, in this order, that is
/// missing or is not a whole number (digits alone, at most nine), and nothing set. With neither launcher that is SLURM_PROCID. A
/// size of 0 counts as no number.
const char* rank_from_environment(std::span<const cohort::lab::Variable> environment, cohort::lab::Identity& identity);
}
