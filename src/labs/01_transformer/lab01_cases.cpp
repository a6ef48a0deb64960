#include "labs/01_transformer/lab01_cases.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace cohort::labs::lab01_transformer {
namespace {

double mean_magnitude(const Doubles& values) {
  double sum = 0.0;
  for (const double value : values) sum += std::fabs(value);
  return values.empty() ? 0.0 : sum / static_cast<double>(values.size());
}

bool near(double found, double expected, double tolerance, double least) {
  return std::fabs(found - expected) <= tolerance * std::max(std::fabs(expected), least) || found == expected;
}

bool all_near(const Guarded& found, const Doubles& values, double tolerance, double least) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!near(found[i], values[i], tolerance, least) && !(std::isnan(found[i]) && std::isnan(values[i]))) return false;
  }
  return true;
}

std::string place_of(std::size_t element, std::size_t count, std::size_t width) {
  if (width == count) return fmt::format("element {}", element);
  return fmt::format("row {}, element {}", element / width, element % width);
}

}  // namespace

std::vector<float> normal_values(std::size_t count, std::uint64_t seed, double deviation, double mean) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(mean, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(normal(random));
  return values;
}

Guarded unwritten(std::size_t count) { return Guarded(std::vector<float>(count, std::numeric_limits<float>::quiet_NaN())); }

void check_values(std::string_view name, const Guarded& found, std::size_t width, const Doubles& expected, double tolerance,
                  const std::vector<Mistake>& mistakes) {
  found.check(name);
  const double least = mean_magnitude(expected);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (near(found[i], expected[i], tolerance, least)) continue;
    const std::string element = fmt::format("{}, {}", name, place_of(i, found.size(), width));
    for (const Mistake& mistake : mistakes) {
      if (all_near(found, mistake.values, tolerance, mean_magnitude(mistake.values)))
        reject("{} is {:.6g}, not {:.6g}: {}", element, found[i], expected[i], mistake.words);
    }
    if (std::isnan(found[i])) reject("{} is not a number: it was not written, or something overflowed on the way to it", element);
    reject("{} is {:.6g}, not {:.6g}", element, found[i], expected[i]);
  }
}

void check_number(std::string_view name, double found, double expected, double tolerance,
                  const std::vector<NumberMistake>& mistakes) {
  if (near(found, expected, tolerance, 0.0)) return;
  for (const NumberMistake& mistake : mistakes) {
    if (near(found, mistake.value, tolerance, 0.0)) reject("{} is {:.6g}, not {:.6g}: {}", name, found, expected, mistake.words);
  }
  reject("{} is {:.6g}, not {:.6g}", name, found, expected);
}

}  // namespace cohort::labs::lab01_transformer
