// `cohort train --trace`: which steps are traced.
#pragma once

#include <optional>
#include <string>

#include "config/run_config.hpp"

namespace cohort {

struct TraceRange {
  Count first = 1, last = 1;  // steps, both traced; 1 is the first of the run
};

/// Of "steps=10-12" or "steps=10"; nothing of "". Throws Error(usage): no such form, steps that the run does not have, or more
/// than can be kept in memory.
std::optional<TraceRange> parse_trace_range(const std::string& text, const RunConfig& config);

}  // namespace cohort
