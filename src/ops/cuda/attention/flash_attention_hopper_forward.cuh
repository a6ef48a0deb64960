// The forward kernel of flash_attention_hopper.hpp. A warpgroup owns 64 queries and walks over blocks of 128 keys from the
// diagonal, or from the last key, down to key 0; the first block alone needs a mask. With documents it ends where the earliest of
// its queries' documents begins, and masks what is before each query's. The running maximum and sum of the softmax
// are kept per row (Milakov and Gimelshein 2018), in units of log2 so that an exponential is one instruction.
#pragma once

#include "ops/cuda/attention/flash_attention_hopper.cuh"

namespace cohort::ops::cuda::hopper {

inline constexpr int kKeys = 128;  // keys and values of one step

/// Registers: the sum over the warpgroups must fit in 512 per lane slot (64 K in all).
template <int HS>
struct ForwardPlan {
  static constexpr int kGroups = HS == 64 ? 3 : 2;  // warpgroups that compute
  static constexpr int kStages = HS == 64 ? 4 : 2;
  static constexpr int kTileRows = kGroups * kRows;
  static constexpr int kThreads = (kGroups + 1) * kWarpgroupThreads;
  static constexpr int kLoadRegisters = kGroups == 3 ? 32 : 40;
  static constexpr int kComputeRegisters = kGroups == 3 ? 160 : 232;
};

template <class T, int HS>
struct alignas(1024) ForwardShared {
  using Plan = ForwardPlan<HS>;
  T queries[Plan::kGroups][kRows * HS];
  T keys[Plan::kStages][kKeys * HS];
  T values[Plan::kStages][kKeys * HS];
  Barrier queries_full[Plan::kGroups], queries_empty[Plan::kGroups];
  Barrier keys_full[Plan::kStages], keys_empty[Plan::kStages];
  Barrier values_full[Plan::kStages], values_empty[Plan::kStages];
  int tile[Plan::kGroups];  // of queries[], written before queries_full; -1: no more
};

/// Tiles of queries are laid from the end of the sequence, so that a tile that sticks out does so before row 0, where it is
/// lightest.
template <bool DOCUMENTS>
struct ForwardTile {
  int sample, head, kv_head;
  int row;          // of the first warpgroup; negative multiples of kRows have no work
  int blocks;       // of keys, up to the last that the last warpgroup needs
  int first_block;  // that the first warpgroup needs

  __device__ ForwardTile(const Problem& problem, int tile_rows, int index) {
    const Tile tile = tile_at(problem.order, index);
    sample = tile.head / problem.heads;
    head = tile.head % problem.heads;
    kv_head = head / problem.group();
    row = problem.padded_queries() - tile_rows * (tile.level + 1);
    blocks = blocks_of(problem, tile_rows / kRows - 1);
    first_block = first_block_of(problem, 0, blocks);
  }
  __device__ int row_of(int warpgroup) const { return row + warpgroup * kRows; }
  __device__ int blocks_of(const Problem& problem, int warpgroup) const {
    if (row_of(warpgroup) < 0) return 0;
    return problem.causal ? row_of(warpgroup) / kKeys + 1 : (problem.keys + kKeys - 1) / kKeys;
  }
  /// Where a warpgroup of so many blocks ends; there is one block at least, seen or not.
  __device__ int first_block_of(const Problem& problem, int warpgroup, int own_blocks) const {
    if constexpr (!DOCUMENTS) return 0;
    return max(0, min(problem.hidden_keys(sample, row_of(warpgroup)) / kKeys, own_blocks - 1));
  }
};

template <class T, int HS, bool DOCUMENTS>
__device__ void load_queries(ForwardShared<T, HS>& shared, const CUtensorMap* map, const Problem& problem, int index,
                             std::uint32_t parity) {
  using Plan = ForwardPlan<HS>;
  for (int group = 0; group < Plan::kGroups; ++group) {
    barrier_wait(&shared.queries_empty[group], parity ^ 1);
    shared.tile[group] = index;
    if (index < 0) {
      barrier_arrive(&shared.queries_full[group]);
      continue;
    }
    const ForwardTile<DOCUMENTS> tile(problem, Plan::kTileRows, index);
    if (tile.row_of(group) < 0) {
      barrier_arrive(&shared.queries_full[group]);
      continue;
    }
    barrier_arrive_expecting(&shared.queries_full[group], sizeof(shared.queries[group]));
    load_rows<T, HS, kRows>(shared.queries[group], map, &shared.queries_full[group], tile.head * HS, tile.row_of(group),
                            tile.sample);
  }
}

/// The loading thread. The next tile's first keys are asked for before its queries, whose buffers are free only later.
template <class T, int HS, bool DOCUMENTS>
__device__ void load_forward(ForwardShared<T, HS>& shared, const CUtensorMap* q, const CUtensorMap* kv, const Problem& problem) {
  using Plan = ForwardPlan<HS>;
  RingPosition<Plan::kStages> ring;
  for (std::uint32_t parity = 0;; parity ^= 1) {
    const int index = take_tile(problem);
    if (index < 0) {
      load_queries<T, HS, DOCUMENTS>(shared, q, problem, index, parity);
      return;
    }
    const ForwardTile<DOCUMENTS> tile(problem, Plan::kTileRows, index);
    const int key_column = problem.key_column(tile.kv_head, HS), value_column = problem.value_column(tile.kv_head, HS);
    for (int block = tile.blocks - 1; block >= tile.first_block; --block, ring.advance()) {
      Barrier* const keys_full = &shared.keys_full[ring.stage];
      barrier_wait(&shared.keys_empty[ring.stage], ring.parity ^ 1);
      barrier_arrive_expecting(keys_full, sizeof(shared.keys[0]));
      load_rows<T, HS, kKeys>(shared.keys[ring.stage], kv, keys_full, key_column, block * kKeys, tile.sample);
      if (block == tile.blocks - 1) load_queries<T, HS, DOCUMENTS>(shared, q, problem, index, parity);
      Barrier* const values_full = &shared.values_full[ring.stage];
      barrier_wait(&shared.values_empty[ring.stage], ring.parity ^ 1);
      barrier_arrive_expecting(values_full, sizeof(shared.values[0]));
      load_rows<T, HS, kKeys>(shared.values[ring.stage], kv, values_full, value_column, block * kKeys, tile.sample);
    }
  }
}

/// The running softmax of a thread's two rows. `sum` is over this thread's columns only; the maximum is the row's.
template <bool DOCUMENTS>
struct RowSoftmax {
  float maximum[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0.0f, 0.0f};

  __device__ static float base_of(float maximum) { return DOCUMENTS && maximum == -INFINITY ? 0.0f : maximum; }

  /// Scores become weights relative to the new maximum; `shrink` is the factor for what was summed before. The masked block
  /// comes first and leaves at least one score per row, so the maximum is finite from then on. With documents a row may see no
  /// key at all: its weights are then 0, not what infinity minus infinity gives.
  template <int N>
  __device__ void update(float (&scores)[N], float (&shrink)[2], float scale_log2) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top[2] = {maximum[half], -INFINITY};
#pragma unroll
      for (int e = 2 * half; e < N; e += 4) {
        top[0] = fmaxf(top[0], scores[e]);
        top[1] = fmaxf(top[1], scores[e + 1]);
      }
      const float new_maximum = row_max(fmaxf(top[0], top[1]));
      shrink[half] = exp2_fast((maximum[half] - base_of(new_maximum)) * scale_log2);
      maximum[half] = new_maximum;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float base = base_of(maximum[half]) * scale_log2;
      float part[2] = {0.0f, 0.0f};
#pragma unroll
      for (int e = 2 * half; e < N; e += 4) {
        scores[e] = exp2_fast(fmaf(scores[e], scale_log2, -base));
        scores[e + 1] = exp2_fast(fmaf(scores[e + 1], scale_log2, -base));
        part[0] += scores[e];
        part[1] += scores[e + 1];
      }
      sum[half] = sum[half] * shrink[half] + (part[0] + part[1]);
    }
  }
};

/// Weights and output of one warpgroup's tile; the two positions in the ring are one apart in the loop, as the values of a block
/// are used beside the keys of the next.
template <class T, int HS, bool DOCUMENTS>
struct ForwardGroup {
  using Ring = RingPosition<ForwardPlan<HS>::kStages>;
  float output[HS / 2];
  float scores[kKeys / 2];
  std::uint32_t weights[kKeys / 4];
  Ring keys, values;

  __device__ void issue_scores(ForwardShared<T, HS>& shared, int group) {
    barrier_wait(&shared.keys_full[keys.stage], keys.parity);
    wgmma_fence();
    multiply_rows<T, kKeys, HS>(scores, shared.queries[group], shared.keys[keys.stage]);
    wgmma_commit();
  }
  __device__ void issue_output(ForwardShared<T, HS>& shared) {
    barrier_wait(&shared.values_full[values.stage], values.parity);
    wgmma_fence();
    multiply_fragment<T, HS, kKeys>(output, weights, shared.values[values.stage]);
    wgmma_commit();
  }
  /// Late, after the softmax, only to hold the exponentials before the wait for the output: `weight_sum` ties them.
  __device__ void release_keys(ForwardShared<T, HS>& shared, float weight_sum) {
    barrier_arrive_warp_after(&shared.keys_empty[keys.stage], weight_sum);
    keys.advance();
  }
  __device__ void release_values(ForwardShared<T, HS>& shared) {
    barrier_arrive_warp(&shared.values_empty[values.stage]);
    values.advance();
  }
  /// A block that other warpgroups need and this one does not.
  __device__ void skip_block(ForwardShared<T, HS>& shared) {
    barrier_wait(&shared.keys_full[keys.stage], keys.parity);
    barrier_arrive_warp(&shared.keys_empty[keys.stage]);
    keys.advance();
    barrier_wait(&shared.values_full[values.stage], values.parity);
    release_values(shared);
  }
  __device__ void pack_weights() {
#pragma unroll
    for (int i = 0; i < kKeys / 4; ++i) weights[i] = pack_pair(T{}, scores[2 * i], scores[2 * i + 1]);
  }
  __device__ void shrink_output(const float (&shrink)[2]) {
#pragma unroll
    for (int e = 0; e < HS / 2; ++e) output[e] *= shrink[e / 2 % 2];
  }

  /// Of its first block the warpgroup, which owns 64 queries from `row` on, must not see all.
  __device__ void mask_first_block(const Problem& problem, int row, int blocks) {
    const int end = problem.keys - (blocks - 1) * kKeys;
    if (problem.causal) {
      mask_columns_after_row(scores, row % kKeys);
    } else if (end < kKeys) {
      mask_columns_from(scores, end);
    }
  }

  /// The blocks from blocks - 1 down to first_block.
  __device__ void run(ForwardShared<T, HS>& shared, const Problem& problem, RowSoftmax<DOCUMENTS>& softmax,
                      const OwnDocuments<DOCUMENTS>& documents, int group, int row, int blocks, int first_block) {
    const float scale_log2 = problem.scale * kLog2E;
    float shrink[2];
#pragma unroll
    for (float& x : output) x = 0.0f;
    issue_scores(shared, group);
    wgmma_wait<0>(scores);
    mask_first_block(problem, row, blocks);
    documents.mask(scores, (blocks - 1) * kKeys);
    softmax.update(scores, shrink, scale_log2);
    release_keys(shared, softmax.sum[0] + softmax.sum[1]);
    pack_weights();
    for (int block = blocks - 2; block >= first_block; --block) {
      issue_scores(shared, group);
      issue_output(shared);
      wgmma_wait<1>(scores);
      documents.mask(scores, block * kKeys);
      softmax.update(scores, shrink, scale_log2);
      release_keys(shared, softmax.sum[0] + softmax.sum[1]);
      wgmma_wait<0>(output, scores);  // also holds back the packing: the products read the old weights until here
      release_values(shared);
      shrink_output(shrink);
      pack_weights();
    }
    barrier_arrive_warp(&shared.queries_empty[group]);
    issue_output(shared);
    wgmma_wait<0>(output);
    release_values(shared);
  }
};

template <class T, int HS, bool DOCUMENTS>
__device__ void compute_forward(ForwardShared<T, HS>& shared, const Problem& problem, void* out, float* lse, int group) {
  using Plan = ForwardPlan<HS>;
  const int own_row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
  ForwardGroup<T, HS, DOCUMENTS> state;
  for (std::uint32_t parity = 0;; parity ^= 1) {
    barrier_wait(&shared.queries_full[group], parity);
    const int index = shared.tile[group];
    if (index < 0) return;
    const ForwardTile<DOCUMENTS> tile(problem, Plan::kTileRows, index);
    const int row = tile.row_of(group), blocks = tile.blocks_of(problem, group);
    for (int block = max(blocks, tile.first_block); block < tile.blocks; ++block) state.skip_block(shared);
    if (blocks == 0) {
      barrier_arrive_warp(&shared.queries_empty[group]);
      continue;
    }
    RowSoftmax<DOCUMENTS> softmax;
    const int first_block = tile.first_block_of(problem, group, blocks);
    state.run(shared, problem, softmax, OwnDocuments<DOCUMENTS>(problem, tile.sample, row), group, row, blocks, first_block);
    for (int block = tile.first_block; block < first_block; ++block) state.skip_block(shared);
    float inverse[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = row_sum(softmax.sum[half]);
      inverse[half] = DOCUMENTS && sum == 0.0f ? 0.0f : 1.0f / sum;
      const int t = row + own_row + 8 * half;
      if (threadIdx.x % 4 == 0 && t < problem.queries) {
        lse[(static_cast<Count>(tile.sample) * problem.heads + tile.head) * problem.lse_rows + t] =
            softmax.maximum[half] * problem.scale + logf(sum);
      }
    }
    const Count offset = problem.out.head_of(tile.sample, tile.head, HS);
    if (problem.block) {
      store_fp32_rows<HS>(state.output, inverse, static_cast<float*>(out) + offset, problem.out.stride, row, problem.queries,
                          false);
    } else {
      store_rows<T, HS>(state.output, inverse, static_cast<T*>(out) + offset, problem.out.stride, row, problem.queries);
    }
  }
}

}  // namespace cohort::ops::cuda::hopper
