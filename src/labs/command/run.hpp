// What `cohort lab run` does.
#pragma once

#include <string>
#include <vector>

#include "labs/labs.hpp"

namespace cohort::labs {

/// The command that trains the lab's run file on its ranks with the code in `folder`, and with `more` words behind it: by srun in
/// a job of SLURM, else by mpirun, with what that needs on a laptop and as root.
std::vector<std::string> run_command(const Lab& lab, const std::string& folder, const std::vector<std::string>& more);

/// Prints that command and becomes it. Throws Error(usage) if the lab has no training; Error(launch) if there is no mpirun or
/// srun.
int run(const Lab& lab, const std::string& folder, const std::vector<std::string>& more);

}  // namespace cohort::labs
