// Where a key of a run file was set, for the beginning of messages.
#pragma once

#include <initializer_list>
#include <string>

#include "config/run_config.hpp"

namespace cohort {

/// "run.toml:7: " for the first of these keys that was set; "" if all are at their defaults.
inline std::string where_set(const RunConfig& config, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const auto origin = config.origins.find(key);
    if (origin != config.origins.end()) return origin->second + ": ";
  }
  return "";
}

}  // namespace cohort
