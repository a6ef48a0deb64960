// The vocabulary of the portable kernels: one body that runs on hosts and on GPUs, through whatever back ends Kokkos has.
//
//   for_rows(exec, "cohort::rmsnorm_forward", rows, KOKKOS_LAMBDA(const Row& row) {
//     const float* x = input + row.index() * n;
//     const float squares = row.sum(n, [=](Count c) { return x[c] * x[c]; });
//     row.each(n, [=](Count c) { ... });
//   });
//
// On a host a thread takes a row, and the loops inside are vector code (`omp simd`: their sums may be reordered, and no iteration
// may depend on another). On a GPU a team of threads takes a row and shares out the loops inside.
//
// Held by all of it: labels begin with "cohort::"; a body is a KOKKOS_LAMBDA, which captures by value, and so are the lambdas
// inside, which are plain ones; no two iterations write to the same element; two runs give the same bits, on a host whatever the
// number of threads unless a function says otherwise. On a GPU the kernels are put on the compute stream, and what says so uses
// gpu::workspace(). A thread that counts (base/counting.hpp) launches nothing. Tiled kernels, in which threads share memory, are
// made of ops/teams.hpp.
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <limits>
#include <string>

#include "base/counting.hpp"
#include "base/error.hpp"
#include "base/units.hpp"
#include "ops/exec.hpp"
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

using DeviceTeams = Kokkos::TeamPolicy<DeviceSpace>;

/// One row, and the threads that work on it.
class Row {
 public:
  using Member = DeviceTeams::member_type;
  KOKKOS_INLINE_FUNCTION explicit Row(Count index, const Member* member = nullptr) : index_(index), member_(member) {}

  KOKKOS_INLINE_FUNCTION Count index() const { return index_; }

  /// body(i) for each i in [0, n). What one call wrote at i the next call may read at i, and at no other.
  template <class Body>
  KOKKOS_INLINE_FUNCTION void each(Count n, const Body& body) const {
#if COHORT_ON_DEVICE
    Kokkos::parallel_for(Kokkos::TeamThreadRange(*member_, n), body);
#else
#pragma omp simd
    for (Count i = 0; i < n; ++i) body(i);
#endif
  }

  /// The sum of term(i) over i in [0, n), which every thread of the row gets. Number: float, or double.
  template <class Number = float, class Term>
  KOKKOS_INLINE_FUNCTION Number sum(Count n, const Term& term) const {
    Number total = 0;
#if COHORT_ON_DEVICE
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(*member_, n), [&](Count i, Number& part) { part += term(i); }, total);
#else
#pragma omp simd reduction(+ : total)
    for (Count i = 0; i < n; ++i) total += term(i);
#endif
    return total;
  }

  /// The sums of both numbers of the Pair term(i).
  template <class Term>
  KOKKOS_INLINE_FUNCTION Pair sum_pairs(Count n, const Term& term) const {
#if COHORT_ON_DEVICE
    float first = 0.0f, second = 0.0f;
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(*member_, n), [&](Count i, float& part) { part += term(i).first; }, first);
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(*member_, n), [&](Count i, float& part) { part += term(i).second; }, second);
#else
    float first = 0.0f, second = 0.0f;
#pragma omp simd reduction(+ : first, second)
    for (Count i = 0; i < n; ++i) {
      const Pair pair = term(i);
      first += pair.first;
      second += pair.second;
    }
#endif
    return {first, second};
  }

  /// The largest of term(i); NaNs are passed over.
  template <class Term>
  KOKKOS_INLINE_FUNCTION float max(Count n, const Term& term) const {
    float largest = -std::numeric_limits<float>::infinity();
#if COHORT_ON_DEVICE
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(*member_, n),
        [&](Count i, float& part) {
          const float value = term(i);
          part = value > part ? value : part;
        },
        Kokkos::Max<float>(largest));
#else
#pragma omp simd reduction(max : largest)
    for (Count i = 0; i < n; ++i) {
      const float value = term(i);
      largest = value > largest ? value : largest;
    }
#endif
    return largest;
  }

  /// Every thread of the row waits for all. Sums and maxima do that, too; what ends with the row needs none.
  KOKKOS_INLINE_FUNCTION void barrier() const {
#if COHORT_ON_DEVICE
    member_->team_barrier();
#endif
  }

  /// body() once, by one thread.
  template <class Body>
  KOKKOS_INLINE_FUNCTION void once(const Body& body) const {
#if COHORT_ON_DEVICE
    if (member_->team_rank() != 0) return;
#endif
    body();
  }

 private:
  Count index_;
  const Member* member_;  // null on a host
};

/// Threads of a row on a GPU: a row of 768 elements gives each six, and sixteen rows fill a multiprocessor.
inline constexpr int kRowThreads = 128;

/// body(row) for each row in [0, rows).
template <class Body>
void for_rows(const Exec& exec, const std::string& label, Count rows, const Body& body) {
  if (rows == 0 || counting()) return;
  if constexpr (kHasDeviceSpace) {
    if (exec.gpu()) {
      Kokkos::parallel_for(
          label, DeviceTeams(device_space(), static_cast<int>(rows), kRowThreads),
          KOKKOS_LAMBDA(const DeviceTeams::member_type& member) { body(Row(member.league_rank(), &member)); });
      return;
    }
  }
  Kokkos::parallel_for(label, Kokkos::RangePolicy<HostSpace, Kokkos::IndexType<Count>>(HostSpace{}, 0, rows),
                       [=](Count r) { body(Row(r)); });
}

/// body(row, column) for each element of a matrix.
template <class Body>
void for_elements(const Exec& exec, const std::string& label, Count rows, Count columns, const Body& body) {
  for_rows(
      exec, label, rows, KOKKOS_LAMBDA(const Row& row) {
        const Count r = row.index();
        row.each(columns, [=](Count c) { body(r, c); });
      });
}

/// Elements of one of the blocks in which flat arrays are walked as if they were rows: large enough to hide the loop, small
/// enough to spread over threads.
inline constexpr Count kBlock = 4096;
inline Count block_count(Count elements) { return (elements + kBlock - 1) / kBlock; }

/// *total += the sum of body(row) over all rows; body returns the same number to every thread of the row. Rows are summed in
/// double precision and, for a given number of threads, in a fixed order. On a GPU total lies there, and the workspace is used.
template <class Body>
void add_row_sums(const Exec& exec, const std::string& label, Count rows, double* total, const Body& body) {
  if (counting()) return;
  if constexpr (kHasDeviceSpace) {
    if (exec.gpu()) {
      COHORT_CHECK(rows * static_cast<Bytes>(sizeof(double)) <= gpu::kWorkspaceBytes, "{}: {} rows", label, rows);
      auto* sums = static_cast<double*>(gpu::workspace());
      for_rows(
          exec, label, rows, KOKKOS_LAMBDA(const Row& row) {
            const Count r = row.index();
            const double value = body(row);
            row.once([=] { sums[r] = value; });
          });
      for_rows(
          exec, label, 1, KOKKOS_LAMBDA(const Row& row) {
            const double value = row.sum<double>(rows, [=](Count r) { return sums[r]; });
            row.once([=] { *total += value; });
          });
      return;
    }
  }
  double sum = 0.0;
  Kokkos::parallel_reduce(
      label, Kokkos::RangePolicy<HostSpace, Kokkos::IndexType<Count>>(HostSpace{}, 0, rows),
      [=](Count r, double& part) { part += body(Row(r)); }, sum);
  *total += sum;
}

}  // namespace cohort::ops
