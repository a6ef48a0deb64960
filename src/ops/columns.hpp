// Walks down the columns of a matrix, beside those along its rows (ops/parallel.hpp): sums over rows, for the gradients of biases
// and norms. What parallel.hpp says of bodies, labels and bits holds.
#pragma once

#include <array>
#include <tuple>

#include "ops/parallel.hpp"

namespace cohort::ops {

/// Columns that one thread of a host handles at most: 8 KiB of sums stay in the nearest cache.
inline constexpr Count kColumnChunk = 2048;

/// On a host: body(begin, end) for each chunk of the columns of a matrix. Chunks are as wide as the number of threads allows,
/// since long runs of neighbouring elements are what memory is fast at.
template <class Body>
void for_column_chunks(const std::string& label, Count rows, Count columns, const Body& body) {
  constexpr Count kNarrowest = 64;
  const Count threads = std::max<Count>(HostSpace().concurrency(), host_threads());
  const Count chunk = std::clamp((columns + threads - 1) / threads, kNarrowest, kColumnChunk);
  for_each_on_host(label, columns == 0 ? 0 : (columns + chunk - 1) / chunk, rows * columns,
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

/// What a walk down the columns adds up: term of the elements of the views. (nvcc lets a kernel capture no parameter pack; a
/// tuple's functions are constexpr, and so for GPUs, too.)
template <class Value, class Term, class... Views>
struct Terms {
  Term term;
  std::tuple<Views...> views;

  static constexpr int kPack = kPackSize<Views...>;
  /// Whether rows of `columns` elements can be read in packs.
  bool in_packs(Count columns) const {
    return columns % kPack == 0 && std::apply([](const auto&... view) { return (view.is_aligned() && ...); }, views);
  }

  /// sums[i] += the term of column c + i of row r, for i < N.
  template <int N>
  KOKKOS_FORCEINLINE_FUNCTION void add(Value* sums, Count r, Count c) const {
    std::apply([&](const auto&... view) { add_held<N>(sums, view.row(r).template hold<N>(c)...); }, views);
  }
  /// The same of rows r and `other`, which are both fetched first.
  template <int N>
  KOKKOS_FORCEINLINE_FUNCTION void add_two(Value* sums, Count r, Count other, Count c) const {
    const auto hold = [&](Count row) {
      return std::apply([&](const auto&... view) { return held_at<N>(c, view.row(row)...); }, views);
    };
    const auto first = hold(r), second = hold(other);
    std::apply([&](const auto&... held) { add_held<N>(sums, held...); }, first);
    std::apply([&](const auto&... held) { add_held<N>(sums, held...); }, second);
  }
  /// The term of column c of row r.
  KOKKOS_FORCEINLINE_FUNCTION Value at(Count r, Count c) const {
    return std::apply([&](const auto&... view) { return value_of(term, view.row(r).template hold<1>(c)...); }, views);
  }

 private:
  template <int N, class... Held>
  KOKKOS_FORCEINLINE_FUNCTION void add_held(Value* sums, Held... held) const {
    for (int i = 0; i < N; ++i) sums[i] += term(held.values[i]...);
    (held.store(), ...);
  }
};

namespace device {

/// add(c, the sum of partial[i * columns + c] over i < parts) for each column c. A team takes 32 columns.
template <class Value, class Add>
void add_up_parts(const std::string& label, const Value* partial, Count parts, Count columns, const Add& add) {
  constexpr int kColumns = 32, kThreads = 512;
  const auto scratch = kThreads * static_cast<int>(sizeof(Value));
  DeviceTeams teams(device_space(), static_cast<int>((columns + kColumns - 1) / kColumns), kThreads);
  teams.set_scratch_size(0, Kokkos::PerTeam(scratch));
  Kokkos::parallel_for(
      label, teams, KOKKOS_LAMBDA(const DeviceTeams::member_type& team) {
        auto* sums = static_cast<Value*>(team.team_shmem().get_shmem(scratch));
        const int thread = team.team_rank();
        const Count c = Count{team.league_rank()} * kColumns + thread % kColumns;
        Value sum{};
        if (c < columns) {
          for (Count i = thread / kColumns; i < parts; i += kThreads / kColumns) sum += partial[i * columns + c];
        }
        sums[thread] = sum;
        team.team_barrier();
        if (thread >= kColumns || c >= columns) return;
        for (int i = thread + kColumns; i < kThreads; i += kColumns) sum += sums[i];
        add(c, sum);
      });
}

/// Teams of 32 x 8 threads: each has a pack of columns and walks down an eighth of its team's share of the rows.
template <int kPack, class Value, class Add, class RowTerms>
void sum_rows_in_packs(const std::string& label, Count rows, Count columns, const RowTerms& terms, const Add& add) {
  constexpr int kAcross = 32, kDown = 8;
  const Count wide = Count{kAcross} * kPack, blocks = (columns + wide - 1) / wide;
  const Count wanted_teams = 1056;  // eight for each of 132 multiprocessors
  const Count shares = std::clamp(wanted_teams / blocks, Count{1}, (rows + kDown - 1) / kDown);
  COHORT_CHECK(shares * columns * static_cast<Bytes>(sizeof(Value)) <= gpu::kWorkspaceBytes, "{}: {} columns", label, columns);
  auto* partial = static_cast<Value*>(gpu::workspace());
  const auto scratch = static_cast<int>(wide * kDown * static_cast<Count>(sizeof(Value)));
  using Teams = Kokkos::TeamPolicy<DeviceSpace, Kokkos::LaunchBounds<kAcross * kDown, 4>>;  // 64 registers
  Teams teams(device_space(), static_cast<int>(blocks * shares), kAcross * kDown);
  teams.set_scratch_size(0, Kokkos::PerTeam(scratch));
  Kokkos::parallel_for(
      label, teams, KOKKOS_LAMBDA(const DeviceTeams::member_type& team) {
        auto* all = static_cast<Value*>(team.team_shmem().get_shmem(scratch));
        const Count share = team.league_rank() / blocks;
        const int across = team.team_rank() % kAcross, down = team.team_rank() / kAcross;
        const Count c = team.league_rank() % blocks * wide + across * kPack;
        const Count begin = share * rows / shares, end = (share + 1) * rows / shares;
        Value sums[kPack] = {};
        if (c < columns) {
          Count r = begin + down;
          for (; r + kDown < end; r += 2 * kDown) terms.template add_two<kPack>(sums, r, r + kDown, c);
          if (r < end) terms.template add<kPack>(sums, r, c);
        }
        for (int i = 0; i < kPack; ++i) all[(down * kPack + i) * kAcross + across] = sums[i];
        team.team_barrier();
        for (int e = team.team_rank(); e < wide; e += kAcross * kDown) {
          Value sum = all[e];
          for (int other = 1; other < kDown; ++other) sum += all[other * wide + e];
          const Count column = team.league_rank() % blocks * wide + e % kAcross * kPack + e / kAcross;
          if (column < columns) partial[share * columns + column] = sum;
        }
      });
  add_up_parts(label, partial, shares, columns, add);
}

/// for_rows_with_sums where the sums of a team's rows fit into its scratch memory; false where not. A team's rows are still in
/// the nearest cache when their terms are summed, so memory is read once.
template <class Value, class Body, class RowTerms, class Add>
bool for_rows_with_sums(const std::string& label, Count rows, Count columns, const Body& body, const RowTerms& terms,
                        const Add& add) {
  constexpr int kPack = RowTerms::kPack, kRowsAtOnce = 8, kMostScratch = 47 * 1024;  // 48 KiB, less what Kokkos needs
  const auto bytes = static_cast<Count>(sizeof(Value)) * columns;
  if (bytes > kMostScratch || !terms.in_packs(columns)) return false;
  const int lanes = DeviceTeams::vector_length_max();
  const Count fitting = gpu::kWorkspaceBytes / bytes, wanted = 132 * 8;  // eight a multiprocessor
  const Count teams_count = std::min({(rows + kRowsAtOnce - 1) / kRowsAtOnce, wanted, fitting});
  auto* partial = static_cast<Value*>(gpu::workspace());
  DeviceTeams teams(device_space(), static_cast<int>(teams_count), kRowsAtOnce, lanes);
  teams.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(bytes)));
  Kokkos::parallel_for(
      label, teams, KOKKOS_LAMBDA(const DeviceTeams::member_type& team) {
        // Element i of pack p at i * packs + p: neighbouring threads then find theirs in neighbouring banks.
        auto* sums = static_cast<Value*>(team.team_shmem().get_shmem(bytes));
        const Count packs = columns / kPack;
        const Row all(team.league_rank(), team, kRowsAtOnce * lanes, true);  // not a row: the threads of the team
        all.each(packs, [=](Count p) {
          for (int i = 0; i < kPack; ++i) sums[i * packs + p] = Value{};
        });
        for (Count first = all.index() * kRowsAtOnce; first < rows; first += teams_count * kRowsAtOnce) {
          const Count r = first + team.team_rank(), end = first + kRowsAtOnce < rows ? first + kRowsAtOnce : rows;
          if (r < rows) body(Row(r, team, lanes, false));
          team.team_barrier();  // so that no thread is ahead by more than a turn
          all.each(packs, [&](Count p) {
            Value own[kPack] = {};
            Count row = first;
            for (; row + 1 < end; row += 2) terms.template add_two<kPack>(own, row, row + 1, p * kPack);
            if (row < end) terms.template add<kPack>(own, row, p * kPack);
            for (int i = 0; i < kPack; ++i) sums[i * packs + p] += own[i];
          });
        }
        all.each(packs, [=](Count p) {
          for (int i = 0; i < kPack; ++i) partial[all.index() * columns + p * kPack + i] = sums[i * packs + p];
        });
      });
  add_up_parts(label, partial, teams_count, columns, add);
  return true;
}

}  // namespace device

/// add(c, the sum over rows of term(elements of column c of the views...)) for each column c. Value, float or Pair, is what term
/// returns. On a GPU the workspace is used.
template <class Value, class Term, class Add, class... Views>
void sum_rows(const Exec& exec, const std::string& label, Count rows, Count columns, const Term& term, const Add& add,
              const Views&... views) {
  if (rows == 0 || counting()) return;
  const Terms<Value, Term, Views...> terms{term, {views...}};
  if constexpr (kHasDeviceSpace) {
    if (exec.gpu()) {
      if (terms.in_packs(columns)) return device::sum_rows_in_packs<kPackSize<Views...>, Value>(label, rows, columns, terms, add);
      return device::sum_rows_in_packs<1, Value>(label, rows, columns, terms, add);
    }
  }
  for_column_chunks(label, rows, columns, [=](Count begin, Count end) {
    ChunkSums<Value> sums;
    const Count width = end - begin;
    // Two rows at a time, so that a sum is loaded and stored half as often.
    for (Count r = 0; r + 1 < rows; r += 2) {
#pragma omp simd
      for (Count c = 0; c < width; ++c) {
        sums.add(c, terms.at(r, begin + c));
        sums.add(c, terms.at(r + 1, begin + c));
      }
    }
    if (rows % 2 != 0) {
#pragma omp simd
      for (Count c = 0; c < width; ++c) sums.add(c, terms.at(rows - 1, begin + c));
    }
    for (Count c = 0; c < width; ++c) add(begin + c, sums.at(c));
  });
}

/// for_rows, and sum_rows of the views: add(c, the sum over rows of term(...)). The two may run as one, so the body leaves alone
/// what the views read.
template <class Value, class Body, class Term, class Add, class... Views>
void for_rows_with_sums(const Exec& exec, const std::string& label, Count rows, Count columns, const Body& body, const Term& term,
                        const Add& add, const Views&... views) {
  if (rows == 0 || counting()) return;
  if constexpr (kHasDeviceSpace) {
    const Terms<Value, Term, Views...> terms{term, {views...}};
    if (exec.gpu() && device::for_rows_with_sums<Value>(label, rows, columns, body, terms, add)) return;
  }
  for_rows(exec, label, rows, columns, body);
  sum_rows<Value>(exec, label + "_sums", rows, columns, term, add, views...);
}

}  // namespace cohort::ops
