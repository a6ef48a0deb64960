// The command that runs when a checkpoint is complete: to upload it, to notify somebody.
#pragma once

#include <filesystem>
#include <string>

#include "base/units.hpp"

namespace cohort {

/// Runs `command` by /bin/sh with the environment variables COHORT_CHECKPOINT (the folder) and COHORT_STEP, and waits for it;
/// does nothing if it is empty. It does not see what launcher and MPI tell a rank, so that it may start an mpirun of its own.
/// Throws Error(io) with its exit status, or the signal that ended it.
void run_on_commit(const std::string& command, const std::filesystem::path& folder, Count step);

}  // namespace cohort
