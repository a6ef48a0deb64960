// What the launcher (srun, mpirun, mpiexec) says of this process in environment variables. These are claims: MPI is the authority
// on rank and size, and check_against_mpi() compares the two. A pure function reads the claims from a map, so that every case
// can be tested without a cluster.
//
// Who wins when several launchers have left variables behind:
//   1. OMPI_COMM_WORLD_*: Open MPI's mpirun. Inside a Slurm job its processes also see the SLURM_* of the batch script, or of the
//      daemon that mpirun started on each node, which speak of other processes.
//   2. PMI_RANK with MPI_LOCALNRANKS: mpiexec of MPICH or Intel MPI, for the same reason.
//   3. SLURM_PROCID with SLURM_STEP_ID: a task of srun.
//   4. SLURM_PROCID without a step: the shell of a batch script (it has SLURM_JOB_ID), where SLURM_NTASKS is what the job asked
//      for and nobody has started; or variables set by hand (it has not).
//   5. only PMI_RANK or PMIX_RANK: another launcher.
//   6. SLURM_NTASKS without SLURM_PROCID, or in a special step of one task: a shell in an allocation (salloc); nothing was
//   launched.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

using Environment = std::map<std::string, std::string, std::less<>>;

/// The environment of this process.
Environment current_environment();
/// That with which a process was started. Empty where it cannot be read.
Environment environment_of(std::int64_t process);

enum class Launcher {
  none,          // started by hand
  mpirun,        // Open MPI
  mpiexec,       // MPICH, Intel MPI or another launcher that is known by PMI_* or PMIX_* only
  srun,          // a task of a Slurm step
  batch_script,  // started by hand from a Slurm batch script
  fake           // SLURM_* set by hand outside of any job: an exercise, a test, or left over from an exported environment
};
std::string_view name_of(Launcher launcher);

/// Unset = the launcher did not say. Empty variables count as unset.
struct LauncherFacts {
  Launcher launcher = Launcher::none;
  std::optional<int> rank;
  std::string rank_variable;  // which variable gave `rank`
  std::optional<int> size;
  std::string size_variable;  // which variable gave `size`
  std::optional<int> local_rank;
  std::optional<int> local_size;
  std::optional<int> node_rank;
  std::optional<int> node_count;
  std::vector<int> tasks_per_node;  // of the Slurm step, in order of node rank

  // What the Slurm job is and asked for; set for every launcher that runs inside a job.
  std::string job_id;
  std::string cluster;                      // SLURM_CLUSTER_NAME
  std::string array_job_id, array_task_id;  // of a job array: the array's own number, and the task's index in it
  std::string nodelist;
  std::string node_name;                    // Slurm's name of this node, of srun's tasks only
  std::optional<int> job_tasks;             // SLURM_NTASKS
  bool in_step = false;                     // in a step of srun: SLURM_NTASKS is that step's, which may be mpirun's daemon
  std::optional<int> asked_tasks_per_node;  // SLURM_NTASKS_PER_NODE
  std::optional<int> cpus_per_task;
  int restart_count = 0;

  bool has_pmix = false;  // the launcher offers PMIx
  bool has_pmi = false;   // the launcher offers PMI-1 or PMI-2
};

/// Throws Error(launch) with the name and the value of a variable that is malformed or contradicts another.
LauncherFacts read_launcher_facts(const Environment& environment);

/// Slurm's list of tasks per node: "2(x3),1" -> 2, 2, 2, 1. Throws Error(launch) naming `variable`.
std::vector<int> parse_tasks_per_node(std::string_view variable, std::string_view text);

/// Whether a launcher has started this process, as far as can be seen: one of its ancestors is a launcher's, or the folder is
/// there that a PMIx launcher keeps while its job runs. Variables alone can be left over in a shell, or set by hand.
bool is_child_of_launcher();

/// The rank that the launcher gave this process, for messages before MPI is up; never throws.
std::optional<int> launcher_rank_now() noexcept;

}  // namespace cohort
