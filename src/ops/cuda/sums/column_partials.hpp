// The second stage of sums over rows. A kernel whose blocks each walk over some of the rows leaves one partial sum per block and
// column; these are added here, in the order of the blocks, so that the result has the same bits on every run. (Atomic additions
// would save the second kernel, and add in a different order every time.)
#pragma once

#include <algorithm>

#include "base/units.hpp"

struct CUstream_st;  // *CUstream_st is cudaStream_t

namespace cohort::ops::cuda {

/// Partial sums of one quantity: enough for every thread of a large card to have a column of its own, and small enough to stay in
/// the second-level cache between the two stages.
inline constexpr Count kMostPartials = Count{1} << 21;

/// How many blocks may leave partial sums of `columns` columns: bounds the scratch memory whatever the card.
inline Count most_partial_rows(Count rows, Count columns) {
  return std::clamp(kMostPartials / columns, Count{1}, std::max(rows, Count{1}));
}

/// Quantities that one kernel sums: an entry is null where a sum is not wanted.
inline constexpr int kMostColumnSums = 2;
struct ColumnSums {
  float* sums[kMostColumnSums];
};

/// For each quantity q that is wanted: sums[q][c] += sum over b of partials[q, b, c]. partials [quantities, blocks, columns].
void add_column_partials(CUstream_st* stream, const ColumnSums& out, const float* partials, int quantities, Count blocks,
                         Count columns);

}  // namespace cohort::ops::cuda
