// Time: seconds for measuring, and the wall clock for logs.
#pragma once

#include <string>

namespace cohort {

/// Something that tells seconds since some fixed moment. Tests pass their own.
using Clock = double (*)();

/// Seconds of the steady clock; only differences mean anything.
double steady_seconds();

/// Of the wall clock, to a thousandth.
double seconds_since_1970();

/// Now in UTC to the millisecond: "2025-03-01T12:00:00.250Z". One zone, so that the logs of all nodes can be merged by sorting.
std::string utc_timestamp();

}  // namespace cohort
