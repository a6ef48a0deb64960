// What of a rank's state may lie outside of the memory that computes.
#pragma once

#include <string>

#include "config/run_config.hpp"

namespace cohort {

/// Throws Error(config) if parallel.offload does not go with the strategy or the device: "parameters" are for zero3 on a GPU, and
/// on a CPU the optimizer's state can go to a folder only. The message begins with `where`. Pure.
void check_offload(const RunConfig& config, const std::string& where);

}  // namespace cohort
