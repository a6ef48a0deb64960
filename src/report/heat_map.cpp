#include "report/heat_map.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cohort {

void HeatMap::merge(Column& into, const Column& other) {
  into.last_step = other.last_step;
  for (std::size_t row = 0; row < into.values.size(); ++row) {
    if (!(into.values[row] >= other.values[row]) && !std::isnan(other.values[row])) into.values[row] = other.values[row];
  }
}

bool HeatMap::add(Count step, const std::vector<double>& values) {
  bool dropped = false;
  if (!columns_.empty() && values.size() != rows()) columns_.clear();
  while (!columns_.empty() && columns_.back().last_step >= step) {
    columns_.pop_back();
    steps_of_last_ = steps_of_a_column_;
    dropped = true;
  }
  if (columns_.empty()) {
    steps_of_a_column_ = 1;
    steps_of_last_ = 1;
  }
  Column column{step, step, std::vector<float>(values.size())};
  std::transform(values.begin(), values.end(), column.values.begin(), [](double value) {
    return std::isfinite(value) ? static_cast<float>(value) : std::numeric_limits<float>::quiet_NaN();
  });
  if (!columns_.empty() && steps_of_last_ < steps_of_a_column_) {
    merge(columns_.back(), column);
    ++steps_of_last_;
    return dropped;
  }
  if (columns_.size() == 2 * kColumns) {
    for (std::size_t c = 0; c < kColumns; ++c) {
      if (c > 0) columns_[c] = std::move(columns_[2 * c]);
      merge(columns_[c], columns_[2 * c + 1]);
    }
    columns_.resize(kColumns);
    steps_of_a_column_ *= 2;
  }
  columns_.push_back(std::move(column));
  steps_of_last_ = 1;
  return dropped;
}

std::vector<HeatMap::Column> HeatMap::columns() const {
  if (columns_.size() <= kColumns) return columns_;
  std::vector<Column> merged;
  for (std::size_t c = 0; c < columns_.size(); c += 2) {
    merged.push_back(columns_[c]);
    if (c + 1 < columns_.size()) merge(merged.back(), columns_[c + 1]);
  }
  return merged;
}

}  // namespace cohort
