// One check of a preflight: its verdict, the figures behind it, and a line for each thing that is wrong.
#pragma once

#include <string>
#include <vector>

#include "preflight/outliers.hpp"

namespace cohort::preflight {

enum class Level { ok, warn, fail };
/// "ok", "warn", "FAIL".
std::string name_of(Level level);

struct Problem {
  Level level;
  std::string text;  // "node3: 3.1 GB/s where the others have 25 GB/s (median)"
};

struct Check {
  std::string name;   // "device to host"
  std::string value;  // "24.9 to 25.3 GB/s"
  std::string limit;  // "0.8 and 0.5 of the others"
  std::vector<Problem> problems;

  Level level() const;  // the worst
};

// Shares of the median of the others, for a warning and for a failure. Alike machines differ by a few per cent, and a measurement
// of some milliseconds by some more; a link that fell back to half of its lanes has a half.
inline constexpr double kWarnShare = 0.8;
inline constexpr double kFailShare = 0.55;

/// "25.3 GB/s"; 1 GB = 10^9 bytes, as links are sold.
std::string speed_text(double bytes_per_second);
/// "0.25 ms", "1.4 us".
std::string time_text(double seconds);

/// Speeds against each other and against a floor, below which it warns (0: none). `outliers_fail`: far outliers fail, else they
/// warn too.
Check check_speeds(std::string name, const std::vector<Measured>& speeds, double floor, bool outliers_fail = true);

/// That all have the same text; who differs from the most common one gets a line of this level.
Check check_same(std::string name, const std::vector<std::string>& hosts, const std::vector<std::string>& texts, Level level);

}  // namespace cohort::preflight
