// `cohort bench checkpoint`.
#pragma once

#include "commands/commands.hpp"

namespace cohort {

void add_bench_checkpoint(CLI::App& bench, Action& action);

}  // namespace cohort
