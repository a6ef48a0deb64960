#include "checkpoint/inspect/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "checkpoint/inspect/elements.hpp"

namespace cohort {
namespace {

// Farther out than this many root mean squares, a linear axis has all the rest in a bin or two.
constexpr double kFarOut = 20.0;
// Values of one sign that span more than this are looked at by their decades, of which an axis shows so many at most.
constexpr double kWideSpan = 1e3;
constexpr double kMostDecades = 1e12;

class Accumulator {
 public:
  void add(double x) {
    ++result_.elements;
    if (std::isnan(x)) {
      ++result_.nans;
    } else if (std::isinf(x)) {
      ++result_.infinities;
    } else {
      add_finite(x);
    }
  }

  TensorStatistics result() const {
    TensorStatistics result = result_;
    if (result.finite() == 0) return result;
    result.norm = std::sqrt(squares_);
    result.mean = mean_;
    result.deviation = std::sqrt(deviations_ / static_cast<double>(result.finite()));
    result.min = min_;
    result.max = max_;
    if (result.zeros < result.finite()) result.smallest = smallest_;
    return result;
  }

 private:
  // The mean and the deviations from it are updated with each value (Welford 1962), since the difference of two large sums would
  // lose a small deviation.
  void add_finite(double x) {
    ++finite_;
    squares_ += x * x;
    const double before = x - mean_;
    mean_ += before / static_cast<double>(finite_);
    deviations_ += before * (x - mean_);
    min_ = std::min(min_, x);
    max_ = std::max(max_, x);
    if (x == 0.0) {
      ++result_.zeros;
    } else {
      smallest_ = std::min(smallest_, std::fabs(x));
    }
  }

  TensorStatistics result_;
  Count finite_ = 0;
  double squares_ = 0.0;
  double mean_ = 0.0;
  double deviations_ = 0.0;
  double min_ = std::numeric_limits<double>::infinity();
  double max_ = -std::numeric_limits<double>::infinity();
  double smallest_ = std::numeric_limits<double>::infinity();
};

}  // namespace

double TensorStatistics::root_mean_square() const {
  return finite() == 0 ? 0.0 : norm / std::sqrt(static_cast<double>(finite()));
}

TensorStatistics statistics_of(const TensorReader& reader, const ManifestTensor& tensor) {
  Accumulator accumulator;
  reader.read_blocks(tensor, [&](const ManifestPart&, Count, const Tensor& elements) {
    for_each_element(elements, [&](double x) { accumulator.add(x); });
  });
  return accumulator.result();
}

TensorStatistics statistics_of(const Tensor& tensor) {
  Accumulator accumulator;
  for_each_element(tensor, [&](double x) { accumulator.add(x); });
  return accumulator.result();
}

TensorStatistics merged(const std::vector<TensorStatistics>& parts) {
  TensorStatistics all;
  double sum = 0.0, squares = 0.0;
  for (const TensorStatistics& part : parts) {
    const bool first = all.finite() == 0;
    all.elements += part.elements;
    all.zeros += part.zeros;
    all.nans += part.nans;
    all.infinities += part.infinities;
    if (part.finite() == 0) continue;
    sum += part.mean * static_cast<double>(part.finite());
    squares += part.norm * part.norm;
    all.min = first ? part.min : std::min(all.min, part.min);
    all.max = first ? part.max : std::max(all.max, part.max);
    if (part.smallest > 0.0) all.smallest = all.smallest > 0.0 ? std::min(all.smallest, part.smallest) : part.smallest;
  }
  if (all.finite() == 0) return all;
  const auto count = static_cast<double>(all.finite());
  all.norm = std::sqrt(squares);
  all.mean = sum / count;
  double deviations = 0.0;
  for (const TensorStatistics& part : parts) {
    const double apart = part.mean - all.mean;
    deviations += static_cast<double>(part.finite()) * (part.deviation * part.deviation + apart * apart);
  }
  all.deviation = std::sqrt(deviations / count);
  return all;
}

ValueAxis ValueAxis::suiting(const TensorStatistics& statistics) {
  const double low = statistics.min;
  const double high = statistics.max;
  if (low == high) {  // one value: in the middle of an axis of some width
    const double margin = low == 0.0 ? 1.0 : std::fabs(low) / 2.0;
    return {low - margin, high + margin, 0.0};
  }
  const double farthest = std::max(-low, high);
  if (low < 0.0 && high > 0.0) {
    const double usual = statistics.root_mean_square();
    return {low, high, farthest > kFarOut * usual ? usual : 0.0};
  }
  const double nearest = std::max(statistics.smallest, farthest / kMostDecades);
  return {low, high, farthest > kWideSpan * nearest ? nearest : 0.0};
}

double ValueAxis::bent(double value) const { return linear() ? value : std::asinh(value / bend_); }

double ValueAxis::position(double value) const { return (bent(value) - bent(low_)) / (bent(high_) - bent(low_)); }

double ValueAxis::value(double position) const {
  const double place = bent(low_) + position * (bent(high_) - bent(low_));
  return linear() ? place : bend_ * std::sinh(place);
}

Count Histogram::tallest() const { return counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end()); }

Histogram histogram_of(const TensorReader& reader, const ManifestTensor& tensor, const ValueAxis& axis, int bins) {
  Histogram histogram{axis, std::vector<Count>(static_cast<std::size_t>(bins))};
  reader.read_blocks(tensor, [&](const ManifestPart&, Count, const Tensor& elements) {
    for_each_element(elements, [&](double x) {
      if (!std::isfinite(x)) return;
      const auto bin = static_cast<int>(histogram.axis.position(x) * bins);
      ++histogram.counts[static_cast<std::size_t>(std::clamp(bin, 0, bins - 1))];
    });
  });
  return histogram;
}

}  // namespace cohort
