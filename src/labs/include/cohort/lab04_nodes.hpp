// Lab 4: nodes and SLURM. Who am I, where am I, who else is there, are all of us here, and when does the job end?
#pragma once

#include <cohort/lab.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

extern "C" {

/// 4.1: the names of a job's nodes, from SLURM_JOB_NODELIST as SLURM writes it: names with commas between them, where numbers in
/// brackets at the end of a name stand for several names. "n[01-03,7],gpu2" is n01, n02, n03, n7, gpu2. A range includes both
/// ends, and its numbers have at least as many digits as its first one is written with: [08-11] is 08, 09, 10, 11, but [8-11] is
/// 8, 9, 10, 11. The order stays. `names` is empty at first; of an empty list it stays so.
void expand_node_list(std::string_view list, std::vector<std::string>& names);

/// How `srun --distribution` hands ranks to nodes.
enum RankDistribution {
  block_distribution,   // a node is filled before the next one gets a rank
  cyclic_distribution,  // one rank to each node in turn
  plane_distribution    // `plane` consecutive ranks to each node in turn
};
struct RankPlace {
  int node;        // SLURM_NODEID, NODE_RANK: from 0
  int local_rank;  // SLURM_LOCALID, LOCAL_RANK: of the ranks on this node, by global rank from 0
};
/// 4.2: where each rank sits, places[rank]. Node k takes tasks_on_node[k] ranks, 0 or more, and their sum is places.size(). In
/// turn means node 0, 1, ..., and again from node 0; a node that is full is passed over, one with less room than `plane` (1 or
/// more; without meaning to the others) takes what fits.
void place_ranks(std::span<const int> tasks_on_node, RankDistribution distribution, int plane, std::span<RankPlace> places);

/// 4.3: returns on no rank before all ranks have called it: messages must have told each rank, directly or through others, that
/// every other rank is there. A message that a rank has sent tells it nothing of its receiver: MPI may only have put it aside.
/// In ceil(log2 n) rounds, for any n: a rank sends one message and receives one in each. Messages of one element at most.
void barrier(cohort::lab::Link& link);

struct JobRequest {
  int ranks;
  int ranks_per_node;    // that a node holds
  long long steps;       // of the training
  double limit_seconds;  // --time: the job is killed so long after its start
  double start_seconds;  // from the start of the job to the begin of its first step, after each start
  double step_seconds;   // > 0
  double save_seconds;   // of a checkpoint
};
struct JobPlan {
  int nodes;                 // as few as hold the ranks
  long long signal_seconds;  // --signal=B:USR1@N takes whole seconds
  long long steps_in_job;    // done and saved by a job that is stopped by the signal
  long long jobs;            // that the training takes
};
/// 4.4: what to ask SLURM for. The signal must come two steps and a save before the limit, rounded up to a whole second. A rank
/// sees it at the end of the step in which it comes, or at once if it comes exactly between two steps; then all ranks do one more
/// step, in which they agree to stop, and save. The last job need not be stopped, but counts as one. If the signal would not come
/// later than the first step begins, the limit is too short: then steps_in_job and jobs are 0.
JobPlan plan_job(const JobRequest& request);
}
