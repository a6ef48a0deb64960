// Compares what the launcher claims with what MPI found, and refuses a job that would run as something else than was asked for:
// N tasks of srun without PMIx are N solo runs that overwrite each other's files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/launcher.hpp"

namespace cohort {

/// What MPI says of this process.
struct MpiFacts {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among the ranks that share memory with this one
  int local_size = 1;
  int node_rank = 0;  // nodes are numbered in the order of their lowest rank
  int node_count = 1;
};

/// Before MPI_Init, because Open MPI ends the process inside it when srun offers no PMI. Throws SharedError(launch) if MPI cannot
/// work; returns a remark to print if it may not. `mpi_needs_pmix`: this MPI is Open MPI.
std::optional<std::string> check_before_mpi(const LauncherFacts& facts, bool mpi_needs_pmix);

/// Throws Error(launch) where launcher and MPI disagree in a way that makes the run wrong. Returns warnings, for a job that runs
/// correctly but maybe not as it was meant. `mpi_library` is named when mpirun and library do not belong together.
std::vector<std::string> check_against_mpi(const LauncherFacts& facts, const MpiFacts& mpi, std::string_view mpi_library);

/// Warns if the job asked for more cores per task than this process may run on.
std::optional<std::string> check_cores(const LauncherFacts& facts, int allowed_cores);

}  // namespace cohort
