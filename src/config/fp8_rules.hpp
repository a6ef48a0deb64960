// What precision.policy = "fp8" goes together with.
#pragma once

#include <string>

#include "config/run_config.hpp"

namespace cohort {

/// Of a resolved run. Error (config) for CPUs and portable kernels, which have no products in 8 bits; for a model without blocks;
/// and where a matrix that a rank multiplies has a side that is not a multiple of 16. Nothing with another policy.
void check_fp8(const RunConfig& config);

/// Why a GPU of this compute capability (89: 8.9) has no products in 8 bits, as the end of a sentence; "" if it has.
std::string why_without_fp8(Count compute_capability);

}  // namespace cohort
