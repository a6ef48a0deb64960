// The two loops that most ops are made of. Both give the same bits whatever the number of threads: no two iterations write to the
// same element.
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <string>

#include "base/units.hpp"
#include "ops/exec.hpp"

namespace cohort::ops {

/// Rows 0 to rows - 1 on the execution space of `exec`, for Kokkos's parallel patterns.
using RowRange = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace, Kokkos::IndexType<Count>>;
inline RowRange row_range(const Exec&, Count rows) { return {Kokkos::DefaultHostExecutionSpace{}, 0, rows}; }

/// body(row) for each row. `label` begins with "cohort::".
template <class Body>
void for_rows(const Exec& exec, const std::string& label, Count rows, const Body& body) {
  Kokkos::parallel_for(label, row_range(exec, rows), body);
}

/// Columns that one iteration of for_column_chunks handles: 1 KiB of a row, so that sums over rows stay in the nearest cache.
inline constexpr Count kColumnChunk = 256;

/// body(begin, end) for each chunk of columns; the body walks all rows. For sums over rows: bias and norm gradients.
template <class Body>
void for_column_chunks(const Exec& exec, const std::string& label, Count columns, const Body& body) {
  for_rows(exec, label, (columns + kColumnChunk - 1) / kColumnChunk,
           [columns, body](Count chunk) { body(chunk * kColumnChunk, std::min(columns, (chunk + 1) * kColumnChunk)); });
}

}  // namespace cohort::ops
