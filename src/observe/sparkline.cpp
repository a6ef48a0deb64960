#include "observe/sparkline.hpp"

#include <algorithm>
#include <cmath>

namespace cohort {

std::string sparkline(std::span<const double> values) {
  constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  double least = INFINITY, most = -INFINITY;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  std::string text;
  for (const double value : values) {
    if (!std::isfinite(value)) {
      text += ' ';
      continue;
    }
    const double height = most > least ? (value - least) / (most - least) : 0.0;
    text += kBlocks[std::min<std::size_t>(7, static_cast<std::size_t>(8.0 * height))];
  }
  return text;
}

void RunningCurve::add(double value) {
  if (!std::isfinite(value)) return;
  if (sums_.empty() || sums_.back().count == per_sum_) {
    if (sums_.size() == 2 * cells_) {
      for (std::size_t i = 0; i < cells_; ++i)
        sums_[i] = {sums_[2 * i].total + sums_[2 * i + 1].total, sums_[2 * i].count + sums_[2 * i + 1].count};
      sums_.resize(cells_);
      per_sum_ *= 2;
    }
    sums_.push_back({});
  }
  sums_.back().total += value;
  ++sums_.back().count;
}

std::vector<double> RunningCurve::values() const {
  const std::size_t together = (sums_.size() + cells_ - 1) / std::max<std::size_t>(1, cells_);
  std::vector<double> means;
  for (std::size_t begin = 0; begin < sums_.size(); begin += together) {
    Sum sum;
    for (std::size_t i = begin; i < std::min(begin + together, sums_.size()); ++i) {
      sum.total += sums_[i].total;
      sum.count += sums_[i].count;
    }
    means.push_back(sum.total / static_cast<double>(sum.count));
  }
  return means;
}

}  // namespace cohort
