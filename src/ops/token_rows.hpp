// Which tokens of a sequence the rows of an activation are, where a rank holds a part of every sample (context parallelism).
#pragma once

#include <array>

#include "base/units.hpp"

namespace cohort::ops {

/// Neighbouring tokens: rows [row, row + count) of each sample are its tokens [position, position + count).
struct TokenRun {
  Count row = 0;
  Count position = 0;
  Count count = 0;

  bool operator==(const TokenRun&) const = default;
};

/// The rows that are here of samples of `tokens` tokens: two runs, one behind the other. By default every token is here, in
/// order.
struct TokenRows {
  Count tokens = 0;  // T of the whole sample; 0 = the rows are whole samples
  std::array<TokenRun, 2> runs = {};

  bool whole() const { return tokens == 0; }
  /// Rows of a sample that are here.
  Count count() const { return runs[0].count + runs[1].count; }
  bool operator==(const TokenRows&) const = default;
};

}  // namespace cohort::ops
