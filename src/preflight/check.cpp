#include "preflight/check.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cohort::preflight {

std::string name_of(Level level) {
  if (level == Level::ok) return "ok";
  return level == Level::warn ? "warn" : "FAIL";
}

Level Check::level() const {
  Level worst = Level::ok;
  for (const Problem& problem : problems) worst = std::max(worst, problem.level);
  return worst;
}

std::string speed_text(double bytes_per_second) { return fmt::format("{:.3g} GB/s", bytes_per_second / 1e9); }

std::string time_text(double seconds) {
  if (seconds >= 1.0) return fmt::format("{:.3g} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} us", seconds * 1e6);
}

Check check_speeds(std::string name, const std::vector<Measured>& speeds, double floor, bool outliers_fail) {
  Check check{std::move(name), "", fmt::format("{} of the others' median", kWarnShare), {}};
  if (outliers_fail) check.limit = fmt::format("{} and {} of the others' median", kWarnShare, kFailShare);
  if (floor > 0.0) check.limit += fmt::format(", {}", speed_text(floor));
  double least = 0.0;
  double most = 0.0;
  std::vector<bool> spoken_of(speeds.size(), false);
  for (const Outlier& outlier : low_outliers(speeds, kWarnShare)) {
    const Measured& slow = speeds[outlier.index];
    const bool fails = outliers_fail && slow.value < kFailShare * outlier.others_median;
    check.problems.push_back(
        {fails ? Level::fail : Level::warn, fmt::format("{}: {} where the others have {} (median)", slow.where,
                                                        speed_text(slow.value), speed_text(outlier.others_median))});
    spoken_of[outlier.index] = true;
  }
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    const double speed = speeds[i].value;
    if (speed <= 0.0) continue;
    least = least == 0.0 ? speed : std::min(least, speed);
    most = std::max(most, speed);
    if (speed < floor && !spoken_of[i]) {
      check.problems.push_back(
          {Level::warn, fmt::format("{}: {}, below {}", speeds[i].where, speed_text(speed), speed_text(floor))});
    }
  }
  check.value = least == most ? speed_text(most) : fmt::format("{} to {}", speed_text(least), speed_text(most));
  return check;
}

Check check_same(std::string name, const std::vector<std::string>& hosts, const std::vector<std::string>& texts, Level level) {
  const std::string common = most_common(texts);
  Check check{std::move(name), common.empty() ? "none" : common, "the same on all nodes", {}};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i] == common) continue;
    const std::string own = texts[i].empty() ? "none" : texts[i];
    check.problems.push_back({level, fmt::format("{}: {} where the others have {}", hosts[i], own, check.value)});
  }
  return check;
}

}  // namespace cohort::preflight
