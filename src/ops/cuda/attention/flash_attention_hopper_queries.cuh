// The backward kernel that owns queries: dq, and on the way the row statistics that the other kernel reads. A warpgroup owns 64
// queries and walks over steps of 64 keys from the diagonal, or from the last key, down to key 0. See
// flash_attention_hopper_backward.cuh.
#pragma once

#include "ops/cuda/attention/flash_attention_hopper_backward.cuh"

namespace cohort::ops::cuda::hopper {

/// As in the forward kernel, tiles are laid from the end of the sequence and the first may stick out before row 0.
template <bool DOCUMENTS>
struct QueryTile {
  int sample, head, kv_head;
  int row;         // of the first warpgroup
  int steps;       // of keys, up to the last that the last warpgroup needs
  int first_step;  // that the first warpgroup needs

  __device__ QueryTile(const Problem& problem, int tile_rows, int index) {
    const Tile tile = tile_at(problem.order, index);
    sample = tile.head / problem.heads;
    head = tile.head % problem.heads;
    kv_head = head / problem.group();
    row = problem.padded_queries() - tile_rows * (tile.level + 1);
    steps = steps_of(problem, row + tile_rows - kRows);
    first_step = first_step_of(problem, row, steps);
  }
  /// Of keys that a warpgroup needs which owns 64 queries from row `own_row` on, a multiple of kRows; negative: none.
  __device__ static int steps_of(const Problem& problem, int own_row) {
    if (own_row < 0) return 0;
    return (problem.causal ? own_row + kRows : problem.padded_keys()) / kRows;
  }
  /// Where such a warpgroup of so many steps ends; there is one step at least, seen or not.
  __device__ int first_step_of(const Problem& problem, int own_row, int own_steps) const {
    if constexpr (!DOCUMENTS) return 0;
    return max(0, min(problem.hidden_keys(sample, own_row) / kRows, own_steps - 1));
  }
};

template <class T>
struct QueryArguments {
  void* dq;
  const T* out;
  const float* lse;
  RowStatistics* statistics;  // written
};

template <class T, int HS, bool DOCUMENTS>
__device__ void load_for_queries(BackwardShared<T, HS>& shared, const CUtensorMap* q, const CUtensorMap* kv,
                                 const CUtensorMap* dout, const Problem& problem) {
  using Plan = BackwardPlan<HS>;
  RingPosition<Plan::kStages> ring;
  for (std::uint32_t parity = 0;; parity ^= 1) {
    const int index = take_tile(problem);
    if (index < 0) return end_tiles(shared, parity);
    const QueryTile<DOCUMENTS> tile(problem, Plan::kTileRows, index);
    const Source keys{kv, problem.key_column(tile.kv_head, HS)}, values{kv, problem.value_column(tile.kv_head, HS)};
    for (int step = tile.steps - 1; step >= tile.first_step; --step, ring.advance()) {
      barrier_wait(&shared.streamed_empty[ring.stage], ring.parity ^ 1);
      barrier_arrive_expecting(&shared.streamed_full[ring.stage], sizeof(shared.streamed[0]));
      load_pair<T, HS>(shared.streamed[ring.stage], &shared.streamed_full[ring.stage], keys, values, step * kRows, tile.sample);
      if (step == tile.steps - 1) {  // after the first step, whose buffers are free earlier
        load_residents<T, HS>(shared, index, parity, {q, tile.head * HS}, {dout, tile.head * HS}, tile.row,
                              problem.padded_queries(), tile.sample);
      }
    }
  }
}

/// The statistics of a thread's two rows, also written to scratch. dout is read from its tile, out from global memory: each lane
/// of a quad takes every fourth 16-byte piece of the row.
template <class T, int HS>
struct OwnRows {
  float lse_log2[2];
  float dot[2];

  template <class Tile>
  __device__ OwnRows(const QueryArguments<T>& arguments, const Problem& problem, const Tile& tile, const T* dout, int row) {
    const int lane = threadIdx.x % 32, quad_lane = lane % 4;
    const Count head = static_cast<Count>(tile.sample) * problem.heads + tile.head;
    RowStatistics& statistics = arguments.statistics[head * (problem.padded_queries() / kRows) + row / kRows];
    const T* const out = arguments.out + problem.out.head_of(tile.sample, tile.head, HS);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int own = threadIdx.x % 128 / 32 * 16 + lane / 4 + 8 * half, t = row + own;
      const bool inside = t < problem.queries;
      const T* const line = out + t * problem.out.stride;
      float sum = 0.0f;
#pragma unroll
      for (int part = 0; part < HS / 32; ++part) {
        const int piece = part % 2 * 4 + quad_lane;  // of the row's 8 in a chunk of 64 columns
        const char* const tile_row = reinterpret_cast<const char*>(dout + part / 2 * kRows * 64) + own * kTileRowBytes;
        const uint4 gradient = *reinterpret_cast<const uint4*>(tile_row + (piece ^ own % 8) * 16);
        const uint4 output = inside ? *reinterpret_cast<const uint4*>(line + part / 2 * 64 + piece * 8) : make_uint4(0, 0, 0, 0);
        sum += dot_pair(T{}, gradient.x, output.x) + dot_pair(T{}, gradient.y, output.y) + dot_pair(T{}, gradient.z, output.z) +
               dot_pair(T{}, gradient.w, output.w);
      }
      dot[half] = row_sum(sum);
      lse_log2[half] = inside ? arguments.lse[head * problem.lse_rows + t] * kLog2E : INFINITY;
      if (quad_lane == 0) {
        statistics.lse_log2[own] = lse_log2[half];
        statistics.dot[own] = dot[half];
      }
    }
  }
};

/// dq of 64 queries, not yet times the scale. While a step's products of scores run, so does dq of the step before, whose buffers
/// are therefore released one step late.
template <class T, int HS, bool DOCUMENTS>
struct QueryGroup {
  using Ring = RingPosition<BackwardPlan<HS>::kStages>;
  float dq[HS / 2];
  float scores[kRows / 2], dweights[kRows / 2];
  std::uint32_t dscores[kRows / 4];
  Ring ring;

  /// Of its first step, the last of `steps`, the warpgroup must not see all: it is on the diagonal, or keys may end within.
  __device__ void mask_first_step(const Problem& problem, int steps) {
    const int end = problem.keys - (steps - 1) * kRows;
    if (problem.causal) {
      mask_columns_after_row(scores, 0);
    } else if (end < kRows) {
      mask_columns_from(scores, end);
    }
  }

  /// The steps from steps - 1 down to first_step.
  __device__ void run(BackwardShared<T, HS>& shared, const Problem& problem, const OwnRows<T, HS>& rows,
                      const OwnDocuments<DOCUMENTS>& documents, int group, int steps, int first_step) {
    const float scale_log2 = problem.scale * kLog2E;
#pragma unroll
    for (float& x : dq) x = 0.0f;
    int previous = -1;  // the stage to release
    for (int step = steps - 1; step >= first_step; --step) {
      const T* const keys = shared.streamed[ring.stage][0];
      barrier_wait(&shared.streamed_full[ring.stage], ring.parity);
      wgmma_fence();
      multiply_rows<T, kRows, HS>(scores, shared.resident[group][0], keys);
      wgmma_commit();
      multiply_rows<T, kRows, HS>(dweights, shared.resident[group][1], shared.streamed[ring.stage][1]);
      wgmma_commit();
      wgmma_wait<2>(dq);
      if (previous >= 0) barrier_arrive_warp(&shared.streamed_empty[previous]);
      wgmma_wait<1>(scores);
      if (step == steps - 1) mask_first_step(problem, steps);
      documents.mask(scores, step * kRows);
#pragma unroll
      for (int e = 0; e < kRows / 2; ++e) scores[e] = exp2_fast(fmaf(scores[e], scale_log2, -rows.lse_log2[e / 2 % 2]));
      wgmma_wait<0>(dweights);
#pragma unroll
      for (int e = 0; e < kRows / 2; e += 2) {
        const float dot = rows.dot[e / 2 % 2];
        dscores[e / 2] = pack_pair(T{}, scores[e] * (dweights[e] - dot), scores[e + 1] * (dweights[e + 1] - dot));
      }
      wgmma_fence();
      multiply_fragment<T, HS, kRows>(dq, dscores, keys);
      wgmma_commit();
      previous = ring.stage;
      ring.advance();
    }
    barrier_arrive_warp(&shared.resident_empty[group]);
    wgmma_wait<0>(dq);
    barrier_arrive_warp(&shared.streamed_empty[previous]);
  }
};

template <class T, int HS, bool DOCUMENTS>
__device__ void compute_for_queries(BackwardShared<T, HS>& shared, const Problem& problem, const QueryArguments<T>& arguments,
                                    int group) {
  using Plan = BackwardPlan<HS>;
  QueryGroup<T, HS, DOCUMENTS> state;
  for (std::uint32_t parity = 0;; parity ^= 1) {
    barrier_wait(&shared.resident_full[group], parity);
    const int index = shared.tile[group];
    if (index < 0) return;
    const QueryTile<DOCUMENTS> tile(problem, Plan::kTileRows, index);
    const int row = tile.row + group * kRows;
    const int steps = tile.steps_of(problem, row);
    for (int step = max(steps, tile.first_step); step < tile.steps; ++step) skip_step(shared, state.ring);
    if (steps == 0) {
      barrier_arrive_warp(&shared.resident_empty[group]);
      continue;
    }
    const OwnRows<T, HS> rows(arguments, problem, tile, shared.resident[group][1], row);
    const int first_step = tile.first_step_of(problem, row, steps);
    state.run(shared, problem, rows, OwnDocuments<DOCUMENTS>(problem, tile.sample, row), group, steps, first_step);
    for (int step = tile.first_step; step < first_step; ++step) skip_step(shared, state.ring);
    const float factor[2] = {problem.scale, problem.scale};
    store_gradient<T, HS>(state.dq, factor, arguments.dq, problem.dq.head_of(tile.sample, tile.head, HS), problem.block,
                          problem.dq.stride, row, problem.queries);
  }
}

}  // namespace cohort::ops::cuda::hopper
