// A moment of a run, as --since and --until name it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/units.hpp"

namespace cohort {

/// A time, or a step: the first line of a rank that speaks of that step or a later one.
struct TimeOrStep {
  std::int64_t time = 0;  // milliseconds since 1970, UTC; if there is no step
  std::optional<Count> step{};
};

/// Milliseconds since 1970.
std::int64_t now_milliseconds();

/// "step:100"; a time in UTC, to the day, minute, second or millisecond: "2025-03-01", "2025-03-01T12:00" (also with a space for
/// the T), "2025-03-01T12:00:00.250Z"; or how long before `now` (milliseconds since 1970): "90s", "10m", "2h", "1d". Throws
/// Error(usage) with `option`, the position and examples.
TimeOrStep parse_time_or_step(std::string_view text, std::string_view option, std::int64_t now);

}  // namespace cohort
