// What the two backward kernels of flash_attention_hopper.hpp share. Notation: s scores, p = exp(s scale - lse) weights, dp =
// dout v^T, d = the row sum of dout * out, ds = p (dp - d). Then dv = p^T dout, dq = scale ds k, dk = scale ds^T q (Dao 2023,
// section 3).
//
// Both walk in steps of 64 rows. In one, a warpgroup owns 64 queries and streams keys and values; in the other it owns 64 keys
// and streams queries and their gradients, and works on the transposed scores. In both the factors p and ds come out of the score
// products in the very layout that the next product takes as its left operand, so nothing goes through shared memory.
#pragma once

#include "ops/cuda/attention/flash_attention_hopper.cuh"

namespace cohort::ops::cuda::hopper {

template <int HS>
struct BackwardPlan {
  static constexpr int kGroups = HS == 64 ? 3 : 2;  // warpgroups that compute
  static constexpr int kStages = HS == 64 ? 6 : 4;
  static constexpr int kTileRows = kGroups * kRows;
  static constexpr int kThreads = (kGroups + 1) * kWarpgroupThreads;
  static constexpr int kLoadRegisters = kGroups == 3 ? 32 : 40;  // with the next line: at most 512 over the warpgroups
  static constexpr int kComputeRegisters = kGroups == 3 ? 160 : 232;
};

/// Of 64 queries: lse in units of log2, and d. In scratch one such block after the other, for each head padded_queries() / 64.
/// Rows beyond the last query have lse = infinity, which makes their weights 0.
struct RowStatistics {
  float lse_log2[kRows];
  float dot[kRows];
};

/// Pair 0 is of queries (or keys), pair 1 of output gradients (or values).
template <class T, int HS>
struct alignas(1024) BackwardShared {
  using Plan = BackwardPlan<HS>;
  T resident[Plan::kGroups][2][kRows * HS];
  T streamed[Plan::kStages][2][kRows * HS];
  RowStatistics statistics[Plan::kStages];  // of streamed queries
  Barrier resident_full[Plan::kGroups], resident_empty[Plan::kGroups];
  Barrier streamed_full[Plan::kStages], streamed_empty[Plan::kStages];
  int tile[Plan::kGroups];  // of resident[], written before resident_full; -1: no more

  __device__ void init() {
    for (int group = 0; group < Plan::kGroups; ++group) {
      barrier_init(&resident_full[group], 1);
      barrier_init(&resident_empty[group], 4);  // one arrival per warp
    }
    for (int stage = 0; stage < Plan::kStages; ++stage) {
      barrier_init(&streamed_full[stage], 1);
      barrier_init(&streamed_empty[stage], 4 * Plan::kGroups);
    }
    barrier_init_fence();
  }
};

template <class T, int HS>
inline constexpr int kBackwardSharedBytes = sizeof(BackwardShared<T, HS>) + 1024;  // room to align the start

/// One of a pair of tiles in global memory: the tensor map and the first column.
struct Source {
  const CUtensorMap* map;
  int column;
};

/// Loads 64 rows of both sources; the barrier must already expect their bytes.
template <class T, int HS>
__device__ inline void load_pair(T (&pair)[2][kRows * HS], Barrier* barrier, Source first, Source second, int row, int sample) {
  load_rows<T, HS, kRows>(pair[0], first.map, barrier, first.column, row, sample);
  load_rows<T, HS, kRows>(pair[1], second.map, barrier, second.column, row, sample);
}

/// Hands every computing warpgroup its number `index` of the next tile and its resident pair of rows `row` + 64 warpgroup, except
/// where these lie outside [0, limit): there is nothing to do then.
template <class T, int HS>
__device__ inline void load_residents(BackwardShared<T, HS>& shared, int index, std::uint32_t parity, Source first, Source second,
                                      int row, int limit, int sample) {
  for (int group = 0; group < BackwardPlan<HS>::kGroups; ++group) {
    barrier_wait(&shared.resident_empty[group], parity ^ 1);
    shared.tile[group] = index;
    Barrier* const full = &shared.resident_full[group];
    const int own_row = row + group * kRows;
    if (own_row < 0 || own_row >= limit) {
      barrier_arrive(full);
    } else {
      barrier_arrive_expecting(full, sizeof(shared.resident[group]));
      load_pair<T, HS>(shared.resident[group], full, first, second, own_row, sample);
    }
  }
}

/// Tells every computing warpgroup to end.
template <class T, int HS>
__device__ inline void end_tiles(BackwardShared<T, HS>& shared, std::uint32_t parity) {
  load_residents<T, HS>(shared, -1, parity, {}, {}, 0, 0, 0);
}

/// Waits for the next streamed pair and passes it by: for steps that other warpgroups need and this one does not.
template <class T, int HS>
__device__ inline void skip_step(BackwardShared<T, HS>& shared, RingPosition<BackwardPlan<HS>::kStages>& ring) {
  barrier_wait(&shared.streamed_full[ring.stage], ring.parity);
  barrier_arrive_warp(&shared.streamed_empty[ring.stage]);
  ring.advance();
}

/// Starts a kernel: aligned shared memory, barriers, and the warpgroups' two roles.
template <class T, int HS, class Load, class Compute>
__device__ inline void run_roles(Load load, Compute compute) {
  using Plan = BackwardPlan<HS>;
  extern __shared__ unsigned char memory[];
  auto& shared = *reinterpret_cast<BackwardShared<T, HS>*>(memory + (1024 - shared_address(memory) % 1024) % 1024);
  if (threadIdx.x == 0) shared.init();
  __syncthreads();
  const int warpgroup = __shfl_sync(0xFFFFFFFF, threadIdx.x / kWarpgroupThreads, 0);
  if (warpgroup == Plan::kGroups) {
    shrink_registers<Plan::kLoadRegisters>();
    if (threadIdx.x == Plan::kGroups * kWarpgroupThreads) load(shared);
  } else {
    grow_registers<Plan::kComputeRegisters>();
    compute(shared, warpgroup);
  }
}

}  // namespace cohort::ops::cuda::hopper
