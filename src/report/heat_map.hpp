// Rows of numbers over the steps of a run, as a picture shows them: however many steps there are, some hundreds of columns.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace cohort {

/// Takes a column a step and keeps at most twice kColumns: when there are more, neighbours become one, which has the largest
/// finite value of each row. So memory is that of a picture, not of a run.
class HeatMap {
 public:
  static constexpr std::size_t kColumns = 200;

  struct Column {
    Count first_step = 0, last_step = 0;
    std::vector<float> values;  // by row; NaN: there was none, or none that is finite
  };

  /// A column of other rows than those before starts anew, and so does a step that was there: a run that went back, or another
  /// run. Returns whether such steps were dropped.
  bool add(Count step, const std::vector<double>& values);

  std::size_t rows() const { return columns_.empty() ? 0 : columns_.front().values.size(); }
  bool empty() const { return columns_.empty(); }
  /// At most kColumns.
  std::vector<Column> columns() const;

 private:
  static void merge(Column& into, const Column& other);

  std::vector<Column> columns_;
  Count steps_of_a_column_ = 1;  // steps that were added, in all columns but the last
  Count steps_of_last_ = 0;
};

}  // namespace cohort
