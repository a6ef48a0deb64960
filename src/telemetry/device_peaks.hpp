// What GPUs can do at most, by their makers' data sheets: what a run's speed is compared with.
#pragma once

#include <optional>
#include <string>

namespace cohort {

/// Floating-point operations a second of dense matrix products on one device, in the type that `policy` (precision.policy)
/// multiplies in: "fp32", "tf32", "bf16", "fp16". Nothing for a device that the table does not have. `device` is its name as the
/// driver gives it ("NVIDIA H100 80GB HBM3").
std::optional<double> datasheet_flops(const std::string& device, const std::string& policy);

}  // namespace cohort
