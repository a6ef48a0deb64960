// Sums of the rows that belong together: the gradient of an embedding, whose table gets, for each token, the sum of the gradients
// at the places where the token stands. What ops/parallel.hpp says of labels and bits holds.
//
// On a GPU no two threads may add to one place, and the order of a sum may not depend on which comes first. So the rows are
// sorted by bin, stably (a radix sort: Knuth, The Art of Computer Programming, volume 3, 5.2.5), and cut into chunks; a thread
// sums a few columns of a chunk, and sums of bins that reach beyond it are put together afterwards.
#pragma once

#include "ops/columns.hpp"
#include "ops/teams.hpp"

namespace cohort::ops {
namespace device {

inline constexpr int kSortRows = 256, kDigits = 256;  // rows of a team; values of a digit of 8 bits

/// order = the rows, sorted by bits [shift, shift + 8) of their bins, and as they were in `before` where those are equal. counts:
/// [kDigits, teams of kSortRows rows].
inline void sort_by_digit(const std::string& label, Count rows, const std::int32_t* bins, int shift, const std::int32_t* before,
                          std::int32_t* order, std::int32_t* counts) {
  const Exec exec{.device = DeviceKind::gpu};
  const Count teams = (rows + kSortRows - 1) / kSortRows;
  for_teams(
      exec, label, teams, kSortRows, kDigits, KOKKOS_LAMBDA(const Team& team) {
        auto* own = reinterpret_cast<std::int32_t*>(team.scratch());
        team.each(kDigits, [=](int digit) { own[digit] = 0; });
        team.barrier();
        const Count first = team.index() * kSortRows;
        team.each(static_cast<int>(rows - first < kSortRows ? rows - first : kSortRows),
                  [=](int i) { Kokkos::atomic_add(&own[bins[before[first + i]] >> shift & (kDigits - 1)], 1); });
        team.barrier();
        team.each(kDigits, [=](int digit) { counts[digit * teams + team.index()] = own[digit]; });
      });
  Kokkos::parallel_scan(
      label, Kokkos::RangePolicy<DeviceSpace, Kokkos::IndexType<Count>>(device_space(), 0, kDigits * teams),
      KOKKOS_LAMBDA(Count i, std::int32_t & sum, bool last) {
        const std::int32_t count = counts[i];
        if (last) counts[i] = sum;
        sum += count;
      });
  for_teams(
      exec, label, teams, kSortRows, kSortRows, KOKKOS_LAMBDA(const Team& team) {
        auto* digits = reinterpret_cast<std::int32_t*>(team.scratch());
        const Count first = team.index() * kSortRows;
        const auto here = static_cast<int>(rows - first < kSortRows ? rows - first : kSortRows);
        team.each(here, [=](int i) { digits[i] = bins[before[first + i]] >> shift & (kDigits - 1); });
        team.barrier();
        team.each(here, [=](int i) {
          std::int32_t place = counts[digits[i] * teams + team.index()];
          for (int j = 0; j < i; ++j) place += digits[j] == digits[i] ? 1 : 0;
          order[place] = before[first + i];
        });
      });
}

/// The rows sorted by bin; two arrays of `rows` numbers and what sort_by_digit needs are taken from `memory`.
inline const std::int32_t* sorted_by_bin(const std::string& label, Count rows, Count bin_count, const std::int32_t* bins,
                                         std::int32_t* memory) {
  std::int32_t *before = memory, *order = memory + rows, *counts = memory + 2 * rows;
  for_each_index(
      DeviceKind::gpu, label, rows, KOKKOS_LAMBDA(Count r) { before[r] = static_cast<std::int32_t>(r); });
  for (int shift = 0; shift == 0 || (bin_count - 1) >> shift != 0; shift += 8) {
    sort_by_digit(label, rows, bins, shift, before, order, counts);
    std::swap(before, order);
  }
  return before;
}

/// Which rows, in their sorted order, are one chunk's, and whether its first and last bins reach beyond it.
struct Chunk {
  Count begin, end;
  bool continues, continued;

  KOKKOS_INLINE_FUNCTION Chunk(Count index, Count length, Count rows, const std::int32_t* bins, const std::int32_t* order)
      : begin(index * length), end((index + 1) * length < rows ? (index + 1) * length : rows) {
    continues = begin > 0 && bins[order[begin - 1]] == bins[order[begin]];
    continued = end < rows && bins[order[end]] == bins[order[end - 1]];
  }
};

template <int kPack, class T>
void add_rows_to_bins(const std::string& label, Count rows, Count columns, Count bin_count, float* table,
                      const std::int32_t* bins, const T* x) {
  const Count sort_numbers = 2 * rows + kDigits * ((rows + kSortRows - 1) / kSortRows);
  const Bytes sort_bytes = (sort_numbers * 4 + 15) / 16 * 16;
  Count length = 32;  // rows of a chunk
  const auto partial_bytes = [&] { return 2 * ((rows + length - 1) / length) * columns * Bytes{sizeof(float)}; };
  while (sort_bytes + partial_bytes() > gpu::kWorkspaceBytes && length < rows) length *= 2;
  COHORT_CHECK(sort_bytes + partial_bytes() <= gpu::kWorkspaceBytes, "{}: {} rows of {} columns", label, rows, columns);
  const std::int32_t* order = sorted_by_bin(label, rows, bin_count, bins, static_cast<std::int32_t*>(gpu::workspace()));
  auto* partial = reinterpret_cast<float*>(static_cast<std::byte*>(gpu::workspace()) + sort_bytes);
  const Count chunks = (rows + length - 1) / length, packs = columns / kPack;
  // Of each chunk the sums of a bin that began before it, and of one that begins in it and continues behind it.
  for_each_index(
      DeviceKind::gpu, label, chunks * packs, KOKKOS_LAMBDA(Count thread) {
        const Count index = thread / packs, c = thread % packs * kPack;
        const Chunk chunk(index, length, rows, bins, order);
        bool first = true;
        float sums[kPack] = {};
        for (Count i = chunk.begin; i < chunk.end; ++i) {
          const Count bin = bins[order[i]];
          const auto terms = in(x + order[i] * columns).template hold<kPack>(c);
          for (int e = 0; e < kPack; ++e) sums[e] += terms.values[e];
          const bool last = i + 1 == chunk.end;
          if (!last && bins[order[i + 1]] == bin) continue;
          const bool began_before = first && chunk.continues;
          const bool goes_on = last && chunk.continued;
          const bool whole = !began_before && !goes_on;
          float* const part = partial + (2 * index + (began_before ? 0 : 1)) * columns;
          auto to = whole ? in_out(table + bin * columns).template hold<kPack>(c) : out(part).template hold<kPack>(c);
          for (int e = 0; e < kPack; ++e) {
            to.values[e] = whole ? to.values[e] + sums[e] : sums[e];
            sums[e] = 0.0f;
          }
          to.store();
          first = false;
        }
      });
  for_each_index(
      DeviceKind::gpu, label, chunks * columns, KOKKOS_LAMBDA(Count thread) {
        const Count index = thread / columns, c = thread % columns;
        Chunk chunk(index, length, rows, bins, order);
        const Count bin = bins[order[chunk.end - 1]];
        const bool whole = chunk.continues && bins[order[chunk.begin]] == bin;  // one bin that began before
        if (!chunk.continued || whole) return;
        float sum = partial[(2 * index + 1) * columns + c];
        for (Count next = index + 1; chunk.continued && bins[order[chunk.end]] == bin; ++next) {
          sum += partial[2 * next * columns + c];
          chunk = Chunk(next, length, rows, bins, order);
        }
        table[bin * columns + c] += sum;
      });
}

}  // namespace device

/// table[bins[r] * columns + c] += x[r * columns + c] for each r and c, those of one bin in the order of r; 0 <= bins[r] <
/// bin_count. On a GPU the workspace is used.
template <class T>
void add_rows_to_bins(const Exec& exec, const std::string& label, Count rows, Count columns, Count bin_count, float* table,
                      const std::int32_t* bins, const T* x) {
  if (rows == 0 || counting()) return;
  if constexpr (kHasDeviceSpace) {
    if (exec.gpu()) {
      constexpr int kPack = kPackSize<In<T>>;
      if (columns % kPack == 0 && in(x).is_aligned() && in(table).is_aligned()) {
        return device::add_rows_to_bins<kPack>(label, rows, columns, bin_count, table, bins, x);
      }
      return device::add_rows_to_bins<1>(label, rows, columns, bin_count, table, bins, x);
    }
  }
  for_column_chunks(label, rows, columns, [=](Count begin, Count end) {
    for (Count r = 0; r < rows; ++r) {
      float* to = table + bins[r] * columns;
      const T* from = x + r * columns;
#pragma omp simd
      for (Count c = begin; c < end; ++c) to[c] += to_float(from[c]);
    }
  });
}

}  // namespace cohort::ops
