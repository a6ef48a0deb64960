// Walks down the columns of a matrix, beside those along its rows (ops/parallel.hpp): sums over rows, for the gradients of biases
// and norms, and sums of chosen rows, for the gradients of embeddings. What parallel.hpp says of bodies, labels and bits holds.
#pragma once

#include <array>

#include "ops/parallel.hpp"

namespace cohort::ops {

/// Columns that one thread of a host handles at most: 8 KiB of sums stay in the nearest cache.
inline constexpr Count kColumnChunk = 2048;

/// On a host: body(begin, end) for each chunk of columns. Chunks are as wide as the number of threads allows, since long runs of
/// neighbouring elements are what memory is fast at.
template <class Body>
void for_column_chunks(const std::string& label, Count columns, const Body& body) {
  constexpr Count kNarrowest = 64;
  const Count threads = HostSpace().concurrency();
  const Count chunk = std::clamp((columns + threads - 1) / threads, kNarrowest, kColumnChunk);
  Kokkos::parallel_for(
      label,
      Kokkos::RangePolicy<HostSpace, Kokkos::IndexType<Count>>(HostSpace{}, 0, columns == 0 ? 0 : (columns + chunk - 1) / chunk),
      [=](Count index) { body(index * chunk, std::min(columns, (index + 1) * chunk)); });
}

/// The sums of one chunk. Two sums lie in two arrays, so that vector code reads neighbours.
template <class Value>
struct ChunkSums;
template <>
struct ChunkSums<float> {
  alignas(64) std::array<float, kColumnChunk> sums = {};
  void add(Count c, float value) { sums[static_cast<std::size_t>(c)] += value; }
  float at(Count c) const { return sums[static_cast<std::size_t>(c)]; }
};
template <>
struct ChunkSums<Pair> {
  ChunkSums<float> first, second;
  void add(Count c, const Pair& value) {
    first.add(c, value.first);
    second.add(c, value.second);
  }
  Pair at(Count c) const { return {first.at(c), second.at(c)}; }
};

namespace device {

/// A team sums 64 columns over its share of the rows; its threads are 64 columns by 4 rows. With 64 columns a row's read is whole
/// lines of memory in 16 bits, too.
inline constexpr Count kTeamColumns = 64, kTeamRows = 4;

/// sum_rows on a GPU: `splits` partial sums of each column go to the workspace, then a thread adds up those of its column.
template <class Value, class Term, class Add>
void sum_rows(const std::string& label, Count rows, Count columns, const Term& term, const Add& add) {
  const Count blocks = (columns + kTeamColumns - 1) / kTeamColumns;
  const Count rows_at_once = 64, wanted_teams = 1024;
  const Count splits = std::clamp(wanted_teams / blocks, Count{1}, (rows + rows_at_once - 1) / rows_at_once);
  const Count share = (rows + splits - 1) / splits;
  COHORT_CHECK(splits * columns * static_cast<Bytes>(sizeof(Value)) <= gpu::kWorkspaceBytes, "{}: {} columns", label, columns);
  auto* partial = static_cast<Value*>(gpu::workspace());
  const auto scratch = kTeamColumns * kTeamRows * static_cast<Count>(sizeof(Value));
  DeviceTeams teams(device_space(), static_cast<int>(blocks * splits), static_cast<int>(kTeamColumns * kTeamRows));
  teams.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(scratch)));
  Kokkos::parallel_for(
      label, teams, KOKKOS_LAMBDA(const DeviceTeams::member_type& team) {
        auto* sums = static_cast<Value*>(team.team_shmem().get_shmem(scratch));
        const Count split = team.league_rank() / blocks;
        const Count lane = team.team_rank() / kTeamColumns;
        const Count c = team.league_rank() % blocks * kTeamColumns + team.team_rank() % kTeamColumns;
        Value sum{};
        if (c < columns) {
          const Count end = (split + 1) * share < rows ? (split + 1) * share : rows;
          for (Count r = split * share + lane; r < end; r += kTeamRows) sum += term(r, c);
        }
        sums[team.team_rank()] = sum;
        team.team_barrier();
        if (lane != 0 || c >= columns) return;
        for (Count other = 1; other < kTeamRows; ++other) sum += sums[other * kTeamColumns + team.team_rank()];
        partial[split * columns + c] = sum;
      });
  for_each_index(
      DeviceKind::gpu, label, columns, KOKKOS_LAMBDA(Count c) {
        Value sum{};
        for (Count split = 0; split < splits; ++split) sum += partial[split * columns + c];
        add(c, sum);
      });
}

}  // namespace device

/// add(c, the sum over rows of term(r, c)) for each column c. Value, float or Pair, is what term returns; term may also write
/// element (r, c) of something. On a GPU the workspace is used.
template <class Value, class Term, class Add>
void sum_rows(const Exec& exec, const std::string& label, Count rows, Count columns, const Term& term, const Add& add) {
  if (rows == 0 || counting()) return;
  if constexpr (kHasDeviceSpace) {
    if (exec.gpu()) return device::sum_rows<Value>(label, rows, columns, term, add);
  }
  for_column_chunks(label, columns, [=](Count begin, Count end) {
    ChunkSums<Value> sums;
    const Count width = end - begin;
    // Two rows at a time, so that a sum is loaded and stored half as often.
    for (Count r = 0; r + 1 < rows; r += 2) {
#pragma omp simd
      for (Count c = 0; c < width; ++c) {
        sums.add(c, term(r, begin + c));
        sums.add(c, term(r + 1, begin + c));
      }
    }
    if (rows % 2 != 0) {
#pragma omp simd
      for (Count c = 0; c < width; ++c) sums.add(c, term(rows - 1, begin + c));
    }
    for (Count c = 0; c < width; ++c) add(begin + c, sums.at(c));
  });
}

/// body(r, c) for each element of a matrix, where rows with the same bin_of(r) >= 0 come one after the other, in order: they may
/// add to the same place. On a GPU a thread takes the rows of some of the bins, and of one column.
template <class BinOf, class Body>
void for_rows_of_bins(const Exec& exec, const std::string& label, Count rows, Count columns, const BinOf& bin_of,
                      const Body& body) {
  if (counting()) return;
  if constexpr (kHasDeviceSpace) {
    if (exec.gpu()) {
      constexpr Count kShares = 256;  // of the bins: every share walks all rows, and each bin's chain of sums is in one
      for_each_index(
          exec.device, label, kShares * columns, KOKKOS_LAMBDA(Count i) {
            const Count share = i / columns, c = i % columns;
            for (Count r = 0; r < rows; ++r) {
              if (bin_of(r) % kShares == share) body(r, c);
            }
          });
      return;
    }
  }
  for_column_chunks(label, columns, [=](Count begin, Count end) {
    for (Count r = 0; r < rows; ++r) {
#pragma omp simd
      for (Count c = begin; c < end; ++c) body(r, c);
    }
  });
}

}  // namespace cohort::ops
