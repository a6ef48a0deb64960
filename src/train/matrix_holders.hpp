// Who holds the matrices that an optimizer updates as wholes: the ranks of the tensor-parallel groups that share one copy of a
// stage between them (ZeRO), or of the one group that has a copy. Arithmetic, without running a layout.
#pragma once

#include <vector>

#include "config/run_config.hpp"
#include "optim/matrix_work.hpp"

namespace cohort {

/// How many ranks hold a stage between them; 0 if no optimizer of the run updates whole matrices. `config` is validated.
int matrix_holders(const RunConfig& config);

/// The matrices of stage `stage`, with the parts of all holders, who are numbered as ranks of the world are: tensor-parallel
/// ranks fastest. The vocabulary of `config` is known; allocates nothing.
std::vector<HeldMatrix> held_matrices(const RunConfig& config, int stage, const ParameterGroups& groups);

}  // namespace cohort
