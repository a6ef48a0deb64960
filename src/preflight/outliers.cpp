#include "preflight/outliers.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "base/error.hpp"

namespace cohort::preflight {
namespace {

std::vector<Outlier> outliers(const std::vector<Measured>& things, const std::function<bool(double, double)>& stands_out) {
  std::vector<Outlier> found;
  for (std::size_t i = 0; i < things.size(); ++i) {
    std::vector<double> others;
    for (std::size_t k = 0; k < things.size(); ++k) {
      if (k != i && things[k].value > 0.0) others.push_back(things[k].value);
    }
    if (things[i].value <= 0.0 || others.empty()) continue;
    const double middle = median(std::move(others));
    if (stands_out(things[i].value, middle)) found.push_back({i, middle});
  }
  return found;
}

}  // namespace

double median(std::vector<double> values) {
  COHORT_CHECK(!values.empty(), "the median of nothing");
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

std::vector<Outlier> low_outliers(const std::vector<Measured>& things, double fraction) {
  return outliers(things, [&](double value, double others) { return value < fraction * others; });
}

std::vector<Outlier> high_outliers(const std::vector<Measured>& things, double factor) {
  return outliers(things, [&](double value, double others) { return value > factor * others; });
}

std::string most_common(const std::vector<std::string>& texts) {
  std::map<std::string, int> counts;
  for (const std::string& text : texts) ++counts[text];
  std::string best;
  int most = 0;
  for (const std::string& text : texts) {
    if (counts[text] <= most) continue;
    most = counts[text];
    best = text;
  }
  return best;
}

}  // namespace cohort::preflight
