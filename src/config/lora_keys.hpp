// The keys of [lora].
#pragma once

#include <string>
#include <vector>

#include "config/key_spec.hpp"

namespace cohort {

std::vector<KeySpec> lora_keys();

/// The patterns of lora.targets.
std::vector<std::string> lora_targets(const LoraSection& lora);

/// Error (config): keys without a rank, a model without transformer blocks, a layout that cannot have adapters.
void check_lora(const RunConfig& config);

/// " lora_rank=8 ...", behind the description of a model; "" without adapters.
std::string describe_lora(const LoraSection& lora);

}  // namespace cohort
