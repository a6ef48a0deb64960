// SLURM's sbatch, where there is one.
#pragma once

#include <filesystem>
#include <string>

namespace cohort {

struct SbatchAnswer {
  int exit_code = 0;
  std::string text;  // what it printed, without the last newline
};

/// Whether sbatch is on the PATH.
bool has_sbatch();

/// `sbatch --test-only FILE`: would SLURM take the job, and when would it start? Nothing is submitted. Throws Error(io).
SbatchAnswer test_with_sbatch(const std::filesystem::path& script);

/// `sbatch FILE`. Throws Error(io).
SbatchAnswer submit_with_sbatch(const std::filesystem::path& script);

}  // namespace cohort
