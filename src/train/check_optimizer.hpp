// How the groups of [optimizer], and [lora], meet the model, before work starts.
#pragma once

#include <string>

#include "config/run_config.hpp"

namespace cohort {

/// Error (config) names the run file's line if a group has a pattern that no parameter's name fits, or lora.targets one that no
/// weight's does, or wants of one what its optimizer cannot do. "" or, if there are several kinds of parameters, what belongs to
/// which optimizer: "adamw: 28 tensors of 20.1k parameters; muon: ...". `config` is validated; its vocabulary need not be known.
/// Allocates nothing.
std::string check_optimizer(const RunConfig& config);

}  // namespace cohort
