// find_straggler: no rank is found, but rank 2 takes 2 s
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

// Three standard deviations: the slow rank hides itself.
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
    medians.push_back(median({own.begin(), own.end()}));
  }
  const double usual = median(medians);
  std::vector<double> deviations;
  for (const double own : medians) deviations.push_back(std::fabs(own - usual));
  const auto slowest = std::max_element(medians.begin(), medians.end());  // the first of equal ones
  double deviation = 0.0;
  for (const double one : deviations) deviation += one * one;
  deviation = std::sqrt(deviation / static_cast<double>(std::max<std::size_t>(deviations.size() - 1, 1)));
  const double above = *slowest - usual;
  if (above <= 3.0 * deviation || above <= 0.1 * usual) return {.rank = -1, .own = 0.0, .usual = usual};
  return {.rank = static_cast<int>(slowest - medians.begin()), .own = *slowest, .usual = usual};
}
