// The backward kernel that owns keys: dk and dv. A warpgroup owns 64 keys of one key/value head and walks, for every query head
// of the group, over steps of 64 queries from the diagonal, or from query 0, to the end. Scores are transposed here: rows are
// keys, columns queries. See flash_attention_hopper_backward.cuh.
#pragma once

#include "ops/cuda/attention/flash_attention_hopper_backward.cuh"

namespace cohort::ops::cuda::hopper {

/// The tile of the first keys is the heaviest. The last may stick out behind the sequence.
template <bool DOCUMENTS>
struct KeyTile {
  int sample, kv_head;
  int row;  // of the first warpgroup
  int first_step, last_step;

  __device__ KeyTile(const Problem& problem, int tile_rows, int index) {
    const Tile tile = tile_at(problem.order, index);
    sample = tile.head / problem.kv_heads;
    kv_head = tile.head % problem.kv_heads;
    row = tile.level * tile_rows;
    last_step = problem.padded_queries() / kRows - 1;
    first_step = own_step(problem, row);
    last_step = own_last_step(problem, row, tile_rows);
  }
  /// The first step of queries that a warpgroup needs which owns 64 keys from row `own_row` on; beyond last_step if no keys are
  /// there.
  __device__ int own_step(const Problem& problem, int own_row) const {
    if (own_row >= problem.padded_keys()) return last_step + 1;
    return problem.causal ? own_row / kRows : 0;
  }
  /// The last step that whoever owns the keys [own_row, own_row + rows) needs: if there are any, one at least, seen or not.
  __device__ int own_last_step(const Problem& problem, int own_row, int rows) const {
    if (!DOCUMENTS || own_row >= problem.padded_keys()) return last_step;
    const int end = problem.end_of_queries(sample, min(own_row + rows, problem.keys));
    return max(own_step(problem, own_row), min((end - 1) / kRows, last_step));
  }
};

struct KeyGradients {
  void* dk;
  void* dv;
};

template <class T, int HS, bool DOCUMENTS>
__device__ void load_for_keys(BackwardShared<T, HS>& shared, const CUtensorMap* q, const CUtensorMap* kv, const CUtensorMap* dout,
                              const RowStatistics* statistics, const Problem& problem) {
  using Plan = BackwardPlan<HS>;
  constexpr std::uint32_t kBytes = sizeof(shared.streamed[0]) + sizeof(RowStatistics);
  RingPosition<Plan::kStages> ring;
  for (std::uint32_t parity = 0;; parity ^= 1) {
    const int index = take_tile(problem);
    if (index < 0) return end_tiles(shared, parity);
    const KeyTile<DOCUMENTS> tile(problem, Plan::kTileRows, index);
    for (int member = 0; member < problem.group(); ++member) {
      const int head = tile.kv_head * problem.group() + member;
      const RowStatistics* const blocks =
          statistics + (static_cast<Count>(tile.sample) * problem.heads + head) * (problem.padded_queries() / kRows);
      for (int step = tile.first_step; step <= tile.last_step; ++step, ring.advance()) {
        Barrier* const full = &shared.streamed_full[ring.stage];
        barrier_wait(&shared.streamed_empty[ring.stage], ring.parity ^ 1);
        barrier_arrive_expecting(full, kBytes);
        load_bytes(&shared.statistics[ring.stage], blocks + step, sizeof(RowStatistics), full);
        load_pair<T, HS>(shared.streamed[ring.stage], full, {q, head * HS}, {dout, head * HS}, step * kRows, tile.sample);
        if (member == 0 && step == tile.first_step) {  // after the first step, whose buffers are free earlier
          load_residents<T, HS>(shared, index, parity, {kv, problem.key_column(tile.kv_head, HS)},
                                {kv, problem.value_column(tile.kv_head, HS)}, tile.row, problem.padded_keys(), tile.sample);
        }
      }
    }
  }
}

/// Of transposed scores, whose first row is `key` and whose first column is `query`: keys before their query's document.
template <int N>
__device__ inline void mask_earlier_keys(float (&scores)[N], const Problem& problem, int sample, int key, int query) {
  if (problem.hidden_keys(sample, query + kRows - 1) <= key) return;
  mask_rows_before(scores, [&](int column) { return problem.hidden_keys(sample, query + column) - key; });
}

/// dk (not yet times the scale) and dv of 64 keys. While a step's scores are computed, so are dv and dk of the step before, whose
/// buffers are therefore released one step late.
template <class T, int HS>
struct KeyGroup {
  using Ring = RingPosition<BackwardPlan<HS>::kStages>;
  float dk[HS / 2], dv[HS / 2];
  float scores[kRows / 2], dweights[kRows / 2];
  std::uint32_t weights[kRows / 4], dscores[kRows / 4];
  Ring ring;
  int previous;  // the stage to release, or -1

  __device__ void release_previous(BackwardShared<T, HS>& shared) {
    if (previous >= 0) barrier_arrive_warp(&shared.streamed_empty[previous]);
    previous = -1;
  }

  __device__ void to_weights(const RowStatistics& statistics, float scale_log2) {
    const int column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int e = 0; e < kRows / 2; e += 4) {
      const float2 lse = *reinterpret_cast<const float2*>(&statistics.lse_log2[e * 2 + column]);
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[e + i] = exp2_fast(fmaf(scores[e + i], scale_log2, i % 2 == 0 ? -lse.x : -lse.y));
    }
  }

  __device__ void pack_factors(const RowStatistics& statistics) {
    const int column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int e = 0; e < kRows / 2; e += 4) {
      const float2 dot = *reinterpret_cast<const float2*>(&statistics.dot[e * 2 + column]);
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        const float low = scores[e + i], high = scores[e + i + 1];
        weights[(e + i) / 2] = pack_pair(T{}, low, high);
        dscores[(e + i) / 2] = pack_pair(T{}, low * (dweights[e + i] - dot.x), high * (dweights[e + i + 1] - dot.y));
      }
    }
  }

  template <class Mask>
  __device__ void step(BackwardShared<T, HS>& shared, int group, float scale_log2, const Mask& mask) {
    const T* const queries = shared.streamed[ring.stage][0];
    const T* const douts = shared.streamed[ring.stage][1];
    const RowStatistics& statistics = shared.statistics[ring.stage];
    barrier_wait(&shared.streamed_full[ring.stage], ring.parity);
    wgmma_fence();
    multiply_rows<T, kRows, HS>(scores, shared.resident[group][0], queries);
    wgmma_commit();
    wgmma_wait<1>(dk, dv);  // frees the registers of their left operands before dweights needs them
    release_previous(shared);
    wgmma_fence();
    multiply_rows<T, kRows, HS>(dweights, shared.resident[group][1], douts);
    wgmma_commit();
    wgmma_wait<1>(scores);
    mask(scores);
    to_weights(statistics, scale_log2);
    wgmma_wait<0>(dweights);
    pack_factors(statistics);
    wgmma_fence();
    multiply_fragment<T, HS, kRows>(dv, weights, douts);
    multiply_fragment<T, HS, kRows>(dk, dscores, queries);
    wgmma_commit();
    previous = ring.stage;
    ring.advance();
  }
};

template <class T, int HS, bool DOCUMENTS>
__device__ void compute_for_keys(BackwardShared<T, HS>& shared, const Problem& problem, const KeyGradients& gradients,
                                 int group) {
  using Plan = BackwardPlan<HS>;
  KeyGroup<T, HS> state;
  for (std::uint32_t parity = 0;; parity ^= 1) {
    barrier_wait(&shared.resident_full[group], parity);
    const int index = shared.tile[group];
    if (index < 0) return;
    const KeyTile<DOCUMENTS> tile(problem, Plan::kTileRows, index);
    const int row = tile.row + group * kRows, own_step = tile.own_step(problem, row);
    const int own_last_step = tile.own_last_step(problem, row, kRows);
#pragma unroll
    for (int e = 0; e < HS / 2; ++e) state.dk[e] = state.dv[e] = 0.0f;
    state.previous = -1;
    for (int member = 0; member < problem.group(); ++member) {
      for (int step = tile.first_step; step < own_step; ++step) skip_step(shared, state.ring);
      for (int step = own_step; step <= own_last_step; ++step) {
        state.step(shared, group, problem.scale * kLog2E, [&](float(&scores)[kRows / 2]) {
          if (problem.causal && step == own_step) mask_rows_after_column(scores);
          if constexpr (DOCUMENTS) mask_earlier_keys(scores, problem, tile.sample, row, step * kRows);
        });
      }
      wgmma_wait<0>(state.dk, state.dv);  // before the next skipped steps, so that stages are released in order
      state.release_previous(shared);
      for (int step = max(own_step, own_last_step + 1); step <= tile.last_step; ++step) skip_step(shared, state.ring);
    }
    barrier_arrive_warp(&shared.resident_empty[group]);
    if (own_step > tile.last_step) continue;
    const float one[2] = {1.0f, 1.0f}, scale[2] = {problem.scale, problem.scale};
    const Count offset = problem.dkv.head_of(tile.sample, tile.kv_head, HS);
    store_gradient<T, HS>(state.dk, scale, gradients.dk, offset, problem.block, problem.dkv.stride, row, problem.keys);
    store_gradient<T, HS>(state.dv, one, gradients.dv, offset, problem.block, problem.dkv.stride, row, problem.keys);
  }
}

}  // namespace cohort::ops::cuda::hopper
