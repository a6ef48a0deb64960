// [fault] and `--fault`: what goes wrong on purpose in a run. Parsing, checking and describing; train/fault_injector.hpp does it.
//
// The short form is KIND:KEY=VALUE,KEY=VALUE with the keys of [fault]: "exit:rank=2,step=5". Keys that are left out have the
// defaults of [fault].
#pragma once

#include <string>
#include <vector>

#include "config/run_config.hpp"

namespace cohort {

/// The fault of the run file, if there is one, and those of the command line, in short form. Checks that each can happen: its
/// rank and step are in the run, its phase comes, its keys have an effect. `config` is validated for `world_size` ranks. Throws
/// Error(config). Not a part of validate(): other commands read the run file of a checkpoint, for other numbers of ranks.
std::vector<FaultSection> faults_of(const RunConfig& config, const std::vector<std::string>& short_forms, Count world_size);

/// "rank 2 will exit with code 1 at step 5", "rank 0 will be killed at step 3, in backward".
std::string describe_fault(const FaultSection& fault);

}  // namespace cohort
