// A run on conversations.
#pragma once

#include <string>

#include "config/run_config.hpp"
#include "train/data_setup.hpp"

namespace cohort {

/// What to say at the start if conversations are longer than the model's context, so that windows divide them: how many. "" if
/// none is, or the data has none.
std::string long_conversations_warning(const RunConfig& config, const RunData& data);

}  // namespace cohort
