// One MPI program in a step of srun. SLURM's PMIx serves each rank of a step once; a second program in it, as in
// `srun bash -c "cohort topo; cohort train ..."`, ends in the MPI_Init of Open MPI 4 with an unhelpful message. So each rank
// leaves a mark in the folder that SLURM keeps for the step on each node, and removes with it.
#pragma once

#include "runtime/launcher.hpp"

namespace cohort {

/// Throws SharedError(launch) if a program before this one has left the mark of this rank; leaves it otherwise. Does nothing
/// outside of srun with PMIx, and where that folder cannot be written. Before MPI is up; all ranks decide alike, each by its own
/// mark.
void claim_step(const Environment& environment, const LauncherFacts& facts);

}  // namespace cohort
