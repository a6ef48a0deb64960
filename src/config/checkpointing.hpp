// Rules of [checkpoint].
#pragma once

#include <functional>
#include <string>

#include "config/run_config.hpp"

namespace cohort {

/// Where in the run file a key stands, as "FILE:LINE: "; "" if nowhere.
using WhereIs = std::function<std::string(const char* key)>;

/// Throws Error(config) for keys of [checkpoint] that exclude each other or have no effect.
void validate_checkpointing(const RunConfig& config, const WhereIs& where_is);

}  // namespace cohort
