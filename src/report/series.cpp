#include "report/series.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace cohort {

namespace {

// Of points [begin, end): the first that is not finite, the least and the largest.
void choose(const std::vector<double>& values, std::size_t begin, std::size_t end, std::vector<std::size_t>& chosen) {
  std::optional<std::size_t> odd, least, largest;
  for (std::size_t i = begin; i < end; ++i) {
    if (!std::isfinite(values[i])) {
      if (!odd) odd = i;
      continue;
    }
    if (!least || values[i] < values[*least]) least = i;
    if (!largest || values[i] > values[*largest]) largest = i;
  }
  for (const auto& index : {odd, least, largest}) {
    if (index) chosen.push_back(*index);
  }
}

}  // namespace

StepSeries thinned(const StepSeries& series, std::size_t most) {
  const std::size_t count = series.steps.size(), stretches = most / 2;
  if (count <= most || stretches == 0) return series;
  std::vector<std::size_t> chosen{0, count - 1};
  for (std::size_t s = 0; s < stretches; ++s) choose(series.values, s * count / stretches, (s + 1) * count / stretches, chosen);
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  StepSeries thin;
  for (const std::size_t i : chosen) thin.add(series.steps[i], series.values[i]);
  return thin;
}

StepSeries smoothed(const StepSeries& series) {
  const double n = std::max(5.0, static_cast<double>(series.steps.size()) / 100.0), keep = 1.0 - 2.0 / (n + 1.0);
  StepSeries smooth;
  double sum = 0.0, weight = 0.0;
  for (std::size_t i = 0; i < series.steps.size(); ++i) {
    if (!std::isfinite(series.values[i])) continue;
    sum = keep * sum + (1.0 - keep) * series.values[i];
    weight = keep * weight + (1.0 - keep);
    smooth.add(series.steps[i], sum / weight);
  }
  return smooth;
}

StepSeries averaged(const StepSeries& series, std::size_t most) {
  const std::size_t count = series.steps.size(), stretches = std::min(most, count);
  StepSeries means;
  for (std::size_t s = 0; s < stretches; ++s) {
    const std::size_t begin = s * count / stretches, end = (s + 1) * count / stretches;
    double sum = 0.0;
    for (std::size_t i = begin; i < end; ++i) sum += series.values[i];
    means.add(series.steps[end - 1], sum / static_cast<double>(end - begin));
  }
  return means;
}

StepSeries accumulated(const StepSeries& series) {
  StepSeries sums;
  double sum = 0.0;
  for (std::size_t i = 0; i < series.steps.size(); ++i) {
    sum += std::isfinite(series.values[i]) ? series.values[i] : 0.0;
    sums.add(series.steps[i], sum);
  }
  return sums;
}

double least_of(const std::vector<double>& values) {
  double least = std::numeric_limits<double>::quiet_NaN();
  for (const double value : values) {
    if (std::isfinite(value) && !(value >= least)) least = value;
  }
  return least;
}

double median_of(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const std::size_t middle = values.size() / 2;
  std::sort(values.begin(), values.end());
  return values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

}  // namespace cohort
