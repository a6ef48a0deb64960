// The ranks of the job, as every command that runs on all of them begins.
#pragma once

#include <memory>

#include "comm/communicator.hpp"

namespace cohort {

/// What main was started with, for open_world().
void set_command_line(int argc, const char* const* argv);

/// The world communicator. Throws SharedError(usage) if ranks were started with different words (mpirun takes several programs,
/// separated by ':'): they would go different ways, and wait for each other forever. // Collective over: world
std::unique_ptr<Communicator> open_world();

}  // namespace cohort
