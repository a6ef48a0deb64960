// The loops that most ops are made of. All give the same bits whatever the number of threads: no two iterations write to the same
// element. The first two run on the host only, the third on either device.
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <string>

#include "base/units.hpp"
#include "ops/exec.hpp"
#include "tensor/spaces.hpp"
#include "tensor/storage_type.hpp"

namespace cohort::ops {

/// Rows 0 to rows - 1 on the execution space of `exec`, for Kokkos's parallel patterns.
using RowRange = Kokkos::RangePolicy<HostSpace, Kokkos::IndexType<Count>>;
inline RowRange row_range(const Exec&, Count rows) { return {HostSpace{}, 0, rows}; }

/// body(row) for each row. `label` begins with "cohort::".
template <class Body>
void for_rows(const Exec& exec, const std::string& label, Count rows, const Body& body) {
  Kokkos::parallel_for(label, row_range(exec, rows), body);
}

/// Columns that one iteration of for_column_chunks handles at most: 8 KiB of sums stay in the nearest cache.
inline constexpr Count kColumnChunk = 2048;

/// body(begin, end) for each chunk of columns; the body walks all rows. For sums over rows: bias and norm gradients. Chunks are
/// as wide as the number of threads allows, since long runs of neighbouring elements are what memory is fast at.
template <class Body>
void for_column_chunks(const Exec& exec, const std::string& label, Count columns, const Body& body) {
  constexpr Count kNarrowest = 64;
  const Count threads = HostSpace().concurrency();
  const Count chunk = std::clamp((columns + threads - 1) / threads, kNarrowest, kColumnChunk);
  for_rows(exec, label, (columns + chunk - 1) / chunk,
           [=](Count index) { body(index * chunk, std::min(columns, (index + 1) * chunk)); });
}

/// body(row, column) for each element of a matrix, on the device or the host. `body` is a KOKKOS_LAMBDA.
template <class Body>
void for_elements(const Exec& exec, const std::string& label, Count rows, Count columns, const Body& body) {
  if (kHasDeviceSpace && exec.cuda()) {
    for_each_index(
        DeviceKind::cuda, label, rows * columns, KOKKOS_LAMBDA(Count i) { body(i / columns, i % columns); });
    return;
  }
  for_rows(exec, label, rows, [=](Count row) {
#pragma omp simd
    for (Count column = 0; column < columns; ++column) body(row, column);
  });
}

}  // namespace cohort::ops
