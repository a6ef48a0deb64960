// find_straggler: but the median over the ranks of their medians is 1 s
#include <algorithm>
#include <array>
#include <cmath>
#include <cohort/lab10_operations.hpp>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

using cohort::lab::Link;

// Means over the steps: one long step makes a straggler.
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2.0;
}

}  // namespace

Straggler find_straggler(std::span<const double> seconds, std::size_t steps) {
  std::vector<double> medians;
  for (std::size_t begin = 0; begin < seconds.size(); begin += steps) {
    const auto own = seconds.subspan(begin, steps);
    double sum = 0.0;
    for (const double one : own) sum += one;
    medians.push_back(sum / static_cast<double>(steps));
  }
  const double usual = median(medians);
  std::vector<double> deviations;
  for (const double own : medians) deviations.push_back(std::fabs(own - usual));
  const auto slowest = std::max_element(medians.begin(), medians.end());  // the first of equal ones
  const double above = *slowest - usual;
  if (above <= 5.0 * 1.4826 * median(deviations) || above <= 0.1 * usual) return {.rank = -1, .own = 0.0, .usual = usual};
  return {.rank = static_cast<int>(slowest - medians.begin()), .own = *slowest, .usual = usual};
}
