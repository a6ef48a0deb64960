// The vocabulary of the portable kernels: one body that runs on hosts and on GPUs, through whatever back ends Kokkos has.
//
//   for_rows(exec, "cohort::rmsnorm_forward", rows, n, KOKKOS_LAMBDA(const Row& row) {
//     const T* x = input + row.index() * n;
//     const float squares = row.sum(n, [=](float value) { return value * value; }, in(x));
//     row.zip(n, [=](float value, float& y) { ... }, in(x), out(output + row.index() * n));
//   });
//
// On a host a thread (ops/host_loop.hpp) takes a row, and the loops inside are vector code (`omp simd`: their sums may be
// reordered, and no iteration may depend on another). On a GPU the lanes of a warp, fewer or many more take a row, as its length
// suggests, and share out the loops inside; they reach memory in packs (ops/views.hpp).
//
// Held by all of it: labels begin with "cohort::"; a body is a KOKKOS_LAMBDA, which captures by value, and so are the lambdas
// inside, which are plain ones; no two iterations write to the same element; two runs give the same bits, on a host whatever the
// number of threads unless a function says otherwise. On a GPU the kernels are put on the compute stream, and what says so uses
// gpu::workspace(). A thread that counts (base/counting.hpp) launches nothing. Tiled kernels, in which threads share memory, are
// made of ops/teams.hpp.
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <type_traits>

#include "base/counting.hpp"
#include "base/error.hpp"
#include "base/units.hpp"
#include "ops/exec.hpp"
#include "ops/host_loop.hpp"
#include "ops/views.hpp"
#include "tensor/spaces.hpp"
#include "tensor/storage_type.hpp"

// True where a compiler works on code of a GPU. A body is compiled twice by nvcc and hipcc, once for each side.
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__) || defined(__SYCL_DEVICE_ONLY__)
#define COHORT_ON_DEVICE 1
#else
#define COHORT_ON_DEVICE 0
#endif

namespace cohort::ops {

/// Two sums made in one walk.
struct Pair {
  float first, second;

  KOKKOS_INLINE_FUNCTION Pair& operator+=(const Pair& other) {
    first += other.first;
    second += other.second;
    return *this;
  }
};

}  // namespace cohort::ops

/// What Kokkos starts a sum of Pairs from.
template <>
struct Kokkos::reduction_identity<cohort::ops::Pair> {
  KOKKOS_FORCEINLINE_FUNCTION static cohort::ops::Pair sum() { return {0.0f, 0.0f}; }
};

namespace cohort::ops {

using DeviceTeams = Kokkos::TeamPolicy<DeviceSpace>;

/// One row, and the threads that work on it.
class Row {
 public:
  using Member = DeviceTeams::member_type;

  /// On a host: one thread.
  KOKKOS_FORCEINLINE_FUNCTION explicit Row(Count index)
      : index_(index), member_(nullptr), thread_(0), threads_(1), team_(false) {}
  /// On a GPU: the `threads` lanes of a Kokkos thread, or those of its whole team.
  KOKKOS_FORCEINLINE_FUNCTION Row(Count index, const Member& member, int threads, bool team)
      : index_(index), member_(&member), thread_(0), threads_(threads), team_(team) {
#if COHORT_ON_DEVICE
    const auto number = [&](int thread) { thread_ = thread; };
    if (team) {
      Kokkos::parallel_for(Kokkos::TeamVectorRange(member, threads), number);
    } else {
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(member, threads), number);
    }
#endif
  }

  KOKKOS_FORCEINLINE_FUNCTION Count index() const { return index_; }

  /// body(i) for each i in [0, n).
  template <class Body>
  KOKKOS_FORCEINLINE_FUNCTION void each(Count n, const Body& body) const {
#if COHORT_ON_DEVICE
    for (Count i = thread_; i < n; i += threads_) body(i);
#else
#pragma omp simd
    for (Count i = 0; i < n; ++i) body(i);
#endif
  }

  /// body(elements of the views...) for each of n elements. What one call wrote another may read through the same kinds of views
  /// at the same place, and else only behind a barrier or a sum.
  template <class Body, class... Views>
  KOKKOS_FORCEINLINE_FUNCTION void zip(Count n, const Body& body, const Views&... views) const {
#if COHORT_ON_DEVICE
    constexpr int kPack = kPackSize<Views...>;
    const int in_packs = (views.is_aligned() && ...) ? static_cast<int>(n) / kPack * kPack : 0;
    const int step = threads_ * kPack;
    int pack = thread_ * kPack;
    if constexpr (kPacksAhead<Views...> == 2) {
      for (; pack + step < in_packs; pack += 2 * step) {
        const auto first = held_at<kPack>(pack, views...), second = held_at<kPack>(pack + step, views...);
        std::apply([&](const auto&... held) { apply<kPack>(body, held...); }, first);
        std::apply([&](const auto&... held) { apply<kPack>(body, held...); }, second);
      }
    }
    for (; pack < in_packs; pack += step) apply<kPack>(body, views.template hold<kPack>(pack)...);
    for (int i = in_packs + thread_; i < n; i += threads_) apply<1>(body, views.template hold<1>(i)...);
#else
#pragma omp simd
    for (Count i = 0; i < n; ++i) apply<1>(body, views.template hold<1>(i)...);
#endif
  }

  /// What zip does, only at element i. It comes behind what a zip of n elements did there through such views.
  template <class Body, class... Views>
  KOKKOS_FORCEINLINE_FUNCTION void at([[maybe_unused]] Count n, Count i, const Body& body, const Views&... views) const {
#if COHORT_ON_DEVICE
    constexpr int kPack = kPackSize<Views...>;
    const Count in_packs = (views.is_aligned() && ...) ? n / kPack * kPack : 0;
    if ((i < in_packs ? i / kPack : i - in_packs) % threads_ != thread_) return;  // another thread's, in zip as well
#endif
    apply<1>(body, views.template hold<1>(i)...);
  }

  /// The sum of term(elements of the views...) over n elements, which every thread of the row gets. Number: float, or double.
  template <class Number = float, class Term, class... Views>
  KOKKOS_FORCEINLINE_FUNCTION Number sum(Count n, const Term& term, const Views&... views) const {
    Number total = 0;
#if COHORT_ON_DEVICE
    zip(
        n, [&](auto&... elements) { total += term(elements...); }, views...);
    return sum_over_threads(total);
#else
#pragma omp simd reduction(+ : total)
    for (Count i = 0; i < n; ++i) total += value_of(term, views.template hold<1>(i)...);
    return total;
#endif
  }

  /// The sums of both numbers of the Pair term(elements of the views...).
  template <class Term, class... Views>
  KOKKOS_FORCEINLINE_FUNCTION Pair sum_pairs(Count n, const Term& term, const Views&... views) const {
#if COHORT_ON_DEVICE
    Pair sums{0.0f, 0.0f};
    zip(
        n, [&](auto&... elements) { sums += term(elements...); }, views...);
    return sum_over_threads(sums);
#else
    float first = 0.0f, second = 0.0f;
#pragma omp simd reduction(+ : first, second)
    for (Count i = 0; i < n; ++i) {
      const Pair pair = value_of(term, views.template hold<1>(i)...);
      first += pair.first;
      second += pair.second;
    }
    return {first, second};
#endif
  }

  /// The largest element of a view; NaNs are passed over.
  template <class View>
  KOKKOS_FORCEINLINE_FUNCTION float max(Count n, const View& view) const {
    float largest = -std::numeric_limits<float>::infinity();
#if COHORT_ON_DEVICE
    zip(
        n, [&](float value) { largest = value > largest ? value : largest; }, view);
    return max_over_threads(largest);
#else
#pragma omp simd reduction(max : largest)
    for (Count i = 0; i < n; ++i) {
      const float value = view.template hold<1>(i).values[0];
      largest = value > largest ? value : largest;
    }
    return largest;
#endif
  }

  /// body() once, by one thread.
  template <class Body>
  KOKKOS_FORCEINLINE_FUNCTION void once(const Body& body) const {
    if (thread_ == 0) body();
  }

 private:
  template <class Number>
  KOKKOS_FORCEINLINE_FUNCTION Number sum_over_threads(const Number& part) const {
    Number total{};
    const auto add = [&](int, Number& sum) { sum += part; };
    if (team_) {
      Kokkos::parallel_reduce(Kokkos::TeamVectorRange(*member_, threads_), add, Kokkos::Sum<Number>(total));
    } else {
      Kokkos::parallel_reduce(Kokkos::ThreadVectorRange(*member_, threads_), add, Kokkos::Sum<Number>(total));
    }
    return total;
  }
  KOKKOS_FORCEINLINE_FUNCTION float max_over_threads(float part) const {
    float largest = part;
    const auto compare = [&](int, float& most) { most = part > most ? part : most; };
    if (team_) {
      Kokkos::parallel_reduce(Kokkos::TeamVectorRange(*member_, threads_), compare, Kokkos::Max<float>(largest));
    } else {
      Kokkos::parallel_reduce(Kokkos::ThreadVectorRange(*member_, threads_), compare, Kokkos::Max<float>(largest));
    }
    return largest;
  }

  Count index_;
  const Member* member_;  // null on a host
  int thread_, threads_;  // this one, and how many there are
  bool team_;             // they are a whole team
};

/// Which threads of a GPU take a row. `lanes`: as many lanes of a warp as the row has packs, so that sums need no barrier.
/// `team`: many warps, for rows of tens of thousands of elements: as many such rows at once as there are warps would push each
/// other out of the caches between two walks along them.
enum class RowThreads { lanes, team };

namespace device {

template <RowThreads kThreads>
struct RowShape {
  static constexpr bool kTeam = kThreads == RowThreads::team;
  static constexpr int kBlock = kTeam ? 512 : 128;
  using Teams = Kokkos::TeamPolicy<DeviceSpace, Kokkos::LaunchBounds<kBlock, kTeam ? 3 : 8>>;  // 42 or 64 registers
  int lanes = Teams::vector_length_max();                                                      // of a Kokkos thread

  explicit RowShape(Count columns) {
    while (!kTeam && lanes > 1 && lanes * 4 >= columns) lanes /= 2;
  }
  int rows_of_team() const { return kTeam ? 1 : kBlock / lanes; }
  int threads() const { return kTeam ? kBlock : lanes; }
};

}  // namespace device

/// body(i) for each i in [0, n) on the host, `elements` in all: on the rank's threads, or on those that Kokkos has on this host.
template <class Body>
void for_each_on_host(const std::string& label, Count n, Count elements, const Body& body) {
#ifdef KOKKOS_ENABLE_SERIAL
  if constexpr (std::is_same_v<HostSpace, Kokkos::Serial>) {
    if (elements >= kLeastOfThreads && host_threads() > 1) {
      return for_runs(n, [&](Count begin, Count end, int) {
        const Body own = body;  // a copy of its own, of which the compiler knows that nobody else changes it
        for (Count i = begin; i < end; ++i) own(i);
      });
    }
  }
#endif
  Kokkos::parallel_for(label, Kokkos::RangePolicy<HostSpace, Kokkos::IndexType<Count>>(HostSpace{}, 0, n), body);
}

/// body(row) for each row in [0, rows). `columns`: about how many elements a row has; it decides how many threads take one.
template <RowThreads kThreads = RowThreads::lanes, class Body>
void for_rows(const Exec& exec, const std::string& label, Count rows, Count columns, const Body& body) {
  if (rows == 0 || counting()) return;
  if constexpr (kHasDeviceSpace) {
    if (exec.gpu()) {
      using Shape = device::RowShape<kThreads>;
      const Shape shape(columns);
      const int rows_of_team = shape.rows_of_team(), threads = shape.threads();
      const auto teams = static_cast<int>((rows + rows_of_team - 1) / rows_of_team);
      Kokkos::parallel_for(
          label, typename Shape::Teams(device_space(), teams, Shape::kBlock / shape.lanes, shape.lanes),
          KOKKOS_LAMBDA(const Row::Member& member) {
            const Count r = Count{member.league_rank()} * rows_of_team + (Shape::kTeam ? 0 : member.team_rank());
            if (r < rows) body(Row(r, member, threads, Shape::kTeam));
          });
      return;
    }
  }
  for_each_on_host(label, rows, rows * columns, [=](Count r) { body(Row(r)); });
}

/// body(row, column) for each element of a matrix.
template <class Body>
void for_elements(const Exec& exec, const std::string& label, Count rows, Count columns, const Body& body) {
  for_rows(
      exec, label, rows, columns, KOKKOS_LAMBDA(const Row& row) {
        const Count r = row.index();
        row.each(columns, [=](Count c) { body(r, c); });
      });
}

/// Elements of one of the blocks in which flat arrays are walked as if they were rows: large enough to hide the loop, small
/// enough to spread over threads.
inline constexpr Count kBlock = 4096;
inline Count block_count(Count elements) { return (elements + kBlock - 1) / kBlock; }

/// *total += the sum of body(row) over all rows; body returns the same number to every thread of the row. Rows are summed in
/// double precision and in a fixed order. On a GPU total lies there, and the workspace is used.
template <RowThreads kThreads = RowThreads::lanes, class Body>
void add_row_sums(const Exec& exec, const std::string& label, Count rows, Count columns, double* total, const Body& body) {
  if (counting()) return;
  if constexpr (kHasDeviceSpace) {
    if (exec.gpu()) {
      COHORT_CHECK(rows * static_cast<Bytes>(sizeof(double)) <= gpu::kWorkspaceBytes, "{}: {} rows", label, rows);
      auto* sums = static_cast<double*>(gpu::workspace());
      for_rows<kThreads>(
          exec, label, rows, columns, KOKKOS_LAMBDA(const Row& row) {
            const Count r = row.index();
            const double value = body(row);
            row.once([=] { sums[r] = value; });
          });
      for_rows<RowThreads::team>(
          exec, label, 1, rows, KOKKOS_LAMBDA(const Row& row) {
            const double value = row.sum<double>(
                rows, [=](int r) { return sums[r]; }, indices());
            row.once([=] { *total += value; });
          });
      return;
    }
  }
  constexpr Count kParts = 64;  // of the rows, whatever the number of threads
  std::array<double, kParts> parts{};
  double* const sums = parts.data();
  for_each_on_host(label, kParts, rows * columns, [=](Count part) {
    double sum = 0.0;
    for (Count r = part * rows / kParts; r < (part + 1) * rows / kParts; ++r) sum += body(Row(r));
    sums[part] = sum;
  });
  for (const double sum : parts) *total += sum;
}

}  // namespace cohort::ops
