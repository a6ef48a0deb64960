// The environments of the ways to start a job, as their launchers make them.
#pragma once

#include <string>

#include "runtime/launcher.hpp"

namespace cohort::test {

/// Task `rank` of `srun -N 2 -n 4` in a job of that shape (Slurm 22.05), without what an MPI plugin adds.
inline Environment srun_task(int rank) {
  return {{"SLURM_JOB_ID", "42"},
          {"SLURM_JOBID", "42"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_STEPID", "0"},
          {"SLURM_PROCID", std::to_string(rank)},
          {"SLURM_LOCALID", std::to_string(rank % 2)},
          {"SLURM_NODEID", std::to_string(rank / 2)},
          {"SLURM_NTASKS", "4"},
          {"SLURM_NPROCS", "4"},
          {"SLURM_STEP_NUM_TASKS", "4"},
          {"SLURM_STEP_NUM_NODES", "2"},
          {"SLURM_JOB_NUM_NODES", "2"},
          {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
          {"SLURM_TASKS_PER_NODE", "2(x2)"},
          {"SLURM_STEP_NODELIST", "node[1-2]"},
          {"SLURM_JOB_NODELIST", "node[1-2]"},
          {"SLURMD_NODENAME", rank < 2 ? "node1" : "node2"}};
}

/// The same with --mpi=pmix.
inline Environment srun_pmix_task(int rank) {
  Environment environment = srun_task(rank);
  environment["PMIX_RANK"] = std::to_string(rank);
  environment["PMIX_NAMESPACE"] = "slurm.pmix.42.0";
  return environment;
}

/// The same with --mpi=pmi2.
inline Environment srun_pmi2_task(int rank) {
  Environment environment = srun_task(rank);
  environment["PMI_RANK"] = std::to_string(rank);
  environment["PMI_SIZE"] = "4";
  environment["PMI_FD"] = "13";
  return environment;
}

/// The shell of `sbatch -N 2 -n 4`: one process, which Slurm calls task 0 all the same.
inline Environment batch_shell() {
  return {{"SLURM_JOB_ID", "42"},  {"SLURM_JOBID", "42"},        {"SLURM_PROCID", "0"},
          {"SLURM_LOCALID", "0"},  {"SLURM_NODEID", "0"},        {"SLURM_NTASKS", "4"},
          {"SLURM_NPROCS", "4"},   {"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_TASKS_PER_NODE", "2(x2)"},
          {"ENVIRONMENT", "BATCH"}};
}

/// The shell of `salloc -N 2 -n 4` on the login node.
inline Environment salloc_shell() {
  return {{"SLURM_JOB_ID", "42"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_TASKS_PER_NODE", "2(x2)"}};
}

/// What mpirun's daemon on another node of `sbatch -N 2 -n 4` has: mpirun starts one a node, with srun.
inline Environment mpirun_daemon() {
  Environment environment = batch_shell();
  environment["SLURM_STEP_ID"] = environment["SLURM_STEPID"] = "0";
  environment["SLURM_NTASKS"] = environment["SLURM_NPROCS"] = environment["SLURM_STEP_NUM_TASKS"] = "2";
  return environment;
}

/// Adds what Open MPI's mpirun -np 4 sets for rank `rank` on one node.
inline Environment with_mpirun(Environment environment, int rank) {
  environment["OMPI_COMM_WORLD_RANK"] = std::to_string(rank);
  environment["OMPI_COMM_WORLD_SIZE"] = "4";
  environment["OMPI_COMM_WORLD_LOCAL_RANK"] = std::to_string(rank);
  environment["OMPI_COMM_WORLD_LOCAL_SIZE"] = "4";
  environment["PMIX_RANK"] = std::to_string(rank);
  environment["PMIX_NAMESPACE"] = "1241841665";
  return environment;
}

}  // namespace cohort::test
