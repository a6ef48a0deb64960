// RUN/faults: what a fault that comes once leaves there, so that it does not come again when a chain of jobs continues one run
// file (train/fault_injector.hpp).
#pragma once

#include <filesystem>
#include <string>

#include "config/run_config.hpp"

namespace cohort {

/// The file that says that the fault has come: RUN/faults/KIND.rankR.stepS.PHASE.
std::filesystem::path mark_of_fault(const FaultSection& fault, const std::filesystem::path& run_folder);

/// Whether a fault that comes once has come, in this part of the run or in one before.
bool has_been(const FaultSection& fault, const std::filesystem::path& run_folder);

/// Whether a file in RUN/faults has a name that a fault leaves there.
bool is_mark_of_fault(const std::string& name);

}  // namespace cohort
