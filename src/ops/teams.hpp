// Tiled portable kernels: teams whose threads share a little fast memory. On a GPU that is a block and its shared memory; on a
// host a team is one thread, and its memory a few pages that stay in the nearest caches. What ops/parallel.hpp says of labels,
// bodies and bits holds.
#pragma once

#include "ops/parallel.hpp"

namespace cohort::ops {

class Team {
 public:
  using Member = DeviceTeams::member_type;
  KOKKOS_INLINE_FUNCTION Team(Count index, float* scratch, const Member* member = nullptr)
      : index_(index), scratch_(scratch), member_(member) {}

  KOKKOS_INLINE_FUNCTION Count index() const { return index_; }
  KOKKOS_INLINE_FUNCTION float* scratch() const { return scratch_; }

#if COHORT_ON_DEVICE
  KOKKOS_INLINE_FUNCTION int thread() const { return member_->team_rank(); }
  KOKKOS_INLINE_FUNCTION int threads() const { return member_->team_size(); }
  /// Every thread waits for all; what each wrote to the scratch memory is then seen by all.
  KOKKOS_INLINE_FUNCTION void barrier() const { member_->team_barrier(); }
#else
  KOKKOS_INLINE_FUNCTION int thread() const { return 0; }
  KOKKOS_INLINE_FUNCTION int threads() const { return 1; }
  KOKKOS_INLINE_FUNCTION void barrier() const {}
#endif

  /// body(i) for each i in [0, n), shared out over the threads.
  template <class Body>
  KOKKOS_INLINE_FUNCTION void each(int n, const Body& body) const {
    for (int i = thread(); i < n; i += threads()) body(i);
  }

 private:
  Count index_;
  float* scratch_;
  [[maybe_unused]] const Member* member_;  // null on a host, which has no use for it
};

/// body(team) for each of the teams, of `threads` threads on a GPU, with `scratch` floats of memory each, uninitialised and
/// aligned to 64 bytes. On a GPU a little less than 48 KiB of it are everywhere to be had.
template <class Body>
void for_teams(const Exec& exec, const std::string& label, Count teams, int threads, Count scratch, const Body& body) {
  if (teams == 0 || counting()) return;
  constexpr int kAlignment = 64;
  const auto bytes = static_cast<int>(scratch * static_cast<Count>(sizeof(float)));
  if constexpr (kHasDeviceSpace) {
    if (exec.gpu()) {
      DeviceTeams policy(device_space(), static_cast<int>(teams), threads);
      policy.set_scratch_size(0, Kokkos::PerTeam(bytes + kAlignment));
      Kokkos::parallel_for(
          label, policy, KOKKOS_LAMBDA(const DeviceTeams::member_type& member) {
            body(Team(member.league_rank(), static_cast<float*>(member.team_shmem().get_shmem_aligned(bytes, kAlignment)),
                      &member));
          });
      return;
    }
  }
  using HostTeams = Kokkos::TeamPolicy<HostSpace>;
  HostTeams policy(HostSpace{}, static_cast<int>(teams), 1);
  policy.set_scratch_size(0, Kokkos::PerTeam(bytes + kAlignment));
  Kokkos::parallel_for(label, policy, [=](const HostTeams::member_type& member) {
    body(Team(member.league_rank(), static_cast<float*>(member.team_shmem().get_shmem_aligned(bytes, kAlignment))));
  });
}

/// The small products that tiled kernels are made of: store(i, j, sum over k of a(i, k) b(k, j)) for each i < rows, j < columns.
/// Each thread computes blocks of kRows x kColumns at a time, which stay in its registers. a and b are read up to the next
/// multiples of those; what they hold beyond rows and columns may be anything. On a host b should have neighbouring j as
/// neighbours.
template <int kRows, int kColumns, class A, class B, class Store>
KOKKOS_INLINE_FUNCTION void team_product(const Team& team, int rows, int columns, int depth, const A& a, const B& b,
                                         const Store& store) {
  const int across = (columns + kColumns - 1) / kColumns, down = (rows + kRows - 1) / kRows;
  team.each(across * down, [&](int block) {
    const int i0 = block / across * kRows, j0 = block % across * kColumns;
    float sums[kRows][kColumns] = {};
    for (int k = 0; k < depth; ++k) {
      for (int i = 0; i < kRows; ++i) {
        const float factor = a(i0 + i, k);
#pragma omp simd
        for (int j = 0; j < kColumns; ++j) sums[i][j] += factor * b(k, j0 + j);
      }
    }
    for (int i = 0; i < kRows && i0 + i < rows; ++i) {
      for (int j = 0; j < kColumns && j0 + j < columns; ++j) store(i0 + i, j0 + j, sums[i][j]);
    }
  });
}

}  // namespace cohort::ops
