// What a warpgroup of the kernel of flash_attention_hopper_joint.cuh computes.
#pragma once

#include "ops/cuda/attention/flash_attention_hopper_joint.cuh"

namespace cohort::ops::cuda::hopper::joint {

/// Of transposed scores of 64 keys from `key` on and 128 queries from `query` on: keys behind their query.
__device__ inline void mask_later_keys(float (&scores)[kTile / 2], int key, int query) {
  const int lane = threadIdx.x % 32, own_row = key - query + threadIdx.x % 128 / 32 * 16 + lane / 4;
#pragma unroll
  for (int e = 0; e < kTile / 2; ++e) {
    const int column = e / 4 * 8 + lane % 4 * 2 + e % 2;
    if (own_row + e / 2 % 2 * 8 > column) scores[e] = -INFINITY;
  }
}

/// Keys before their query's document.
__device__ inline void mask_earlier_keys(float (&scores)[kTile / 2], const Statistics (&statistics)[2], int key) {
  if (statistics[1].first_key[kRows - 1] <= key) return;
  const int lane = threadIdx.x % 32, own_key = key + threadIdx.x % 128 / 32 * 16 + lane / 4, column = lane % 4 * 2;
#pragma unroll
  for (int e = 0; e < kTile / 2; e += 4) {
    const int2 first = *reinterpret_cast<const int2*>(&statistics[e / 32].first_key[e % 32 * 2 + column]);
    if (own_key < first.x) scores[e] = -INFINITY;
    if (own_key < first.y) scores[e + 1] = -INFINITY;
    if (own_key + 8 < first.x) scores[e + 2] = -INFINITY;
    if (own_key + 8 < first.y) scores[e + 3] = -INFINITY;
  }
}

/// dk (not yet times the scale) and dv of 64 keys, and what they and the other warpgroup's add to dq of 64 queries.
template <class T>
struct KeyGroup {
  float dk[kHeadSize / 2], dv[kHeadSize / 2], dq[kHeadSize / 2];
  float scores[kTile / 2], dweights[kTile / 2];
  std::uint32_t weights[kTile / 4], dscores[kTile / 4];
  RingPosition<kStages> ring;
  std::uint32_t parity = 0;  // of this step's score gradients and sums

  __device__ void to_weights(const Statistics (&statistics)[2], float scale_log2) {
    const int column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int e = 0; e < kTile / 2; e += 4) {
      const float2 lse = *reinterpret_cast<const float2*>(&statistics[e / 32].lse_log2[e % 32 * 2 + column]);
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[e + i] = exp2_fast(fmaf(scores[e + i], scale_log2, i % 2 == 0 ? -lse.x : -lse.y));
#pragma unroll
      for (int i = 0; i < 4; i += 2) weights[(e + i) / 2] = pack_pair(T{}, scores[e + i], scores[e + i + 1]);
    }
  }
  __device__ void to_score_gradients(const Statistics (&statistics)[2]) {
    const int column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int e = 0; e < kTile / 2; e += 4) {
      const float2 dot = *reinterpret_cast<const float2*>(&statistics[e / 32].dot[e % 32 * 2 + column]);
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        dscores[(e + i) / 2] =
            pack_pair(T{}, scores[e + i] * (dweights[e + i] - dot.x), scores[e + i + 1] * (dweights[e + i + 1] - dot.y));
      }
    }
  }

  /// To the rows of the warpgroup's own keys. A matrix is 8 keys by 8 queries; four are 16 keys by 16 queries.
  __device__ void share_score_gradients(Shared<T>& shared, int group) {
    const int lane = threadIdx.x % 32, matrix = lane / 8;
    const int row = group * kRows + threadIdx.x % 128 / 32 * 16 + matrix % 2 * 8 + lane % 8;
    barrier_wait(&shared.dscores_empty, parity ^ 1);
#pragma unroll
    for (int i = 0; i < kTile / 16; ++i) {
      const int piece = 2 * i + matrix / 2;  // of 8 queries
      char* const line = reinterpret_cast<char*>(shared.dscores[i / 4]) + row * kTileRowBytes;
      store_matrices(line + (piece % 8 ^ lane % 8) * 16, dscores + 4 * i);
    }
    shared_writes_fence();
    barrier_arrive_warp(&shared.dscores_full);
  }

  __device__ void send_sums(Shared<T>& shared, int group) {
    barrier_wait(&shared.sums_empty[group], parity ^ 1);
    auto* const to = reinterpret_cast<float4*>(shared.sums[group]) + threadIdx.x % 128;
#pragma unroll
    for (int i = 0; i < kHeadSize / 8; ++i)
      to[i * kWarpgroupThreads] = make_float4(dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
    shared_writes_fence();
    barrier_arrive_warp(&shared.sums_full[group]);
  }

  /// Of the tile in place `slot`.
  template <class Mask>
  __device__ void step(Shared<T>& shared, int slot, int group, float scale_log2, const Mask& mask) {
    const T* const queries = shared.streamed[ring.stage][0];
    const T* const douts = shared.streamed[ring.stage][1];
    const Statistics(&statistics)[2] = shared.statistics[ring.stage];
    barrier_wait(&shared.streamed_full[ring.stage], ring.parity);
    wgmma_fence();
    multiply_rows<T, kTile, kHeadSize>(scores, shared.keys[slot] + group * kRowsElements, queries);
    wgmma_commit();
    multiply_rows<T, kTile, kHeadSize>(dweights, shared.values[slot] + group * kRowsElements, douts);
    wgmma_commit();
    wgmma_wait<1>(scores);
    mask(scores, statistics);
    to_weights(statistics, scale_log2);
    wgmma_fence();
    multiply_fragment<T, kHeadSize, kTile>(dv, weights, douts);
    wgmma_commit();
    wgmma_wait<1>(dweights);
    to_score_gradients(statistics);
    share_score_gradients(shared, group);
    barrier_wait(&shared.dscores_full, parity);
    wgmma_fence();
    multiply_columns<T, kHeadSize, kTile>(dq, shared.dscores[group], shared.keys[slot]);
    wgmma_commit();
    multiply_fragment<T, kHeadSize, kTile>(dk, dscores, queries);
    wgmma_commit();
    wgmma_wait<1>(dq, dv);
    barrier_arrive_warp(&shared.dscores_empty);
    send_sums(shared, group);
    wgmma_wait<0>(dk);
    barrier_arrive_warp(&shared.streamed_empty[ring.stage]);
    parity ^= 1;
    ring.advance();
  }
};

struct Gradients {
  void* dk;
  void* dv;
};

template <class T, bool DOCUMENTS>
__device__ void compute(Shared<T>& shared, const Problem& problem, const Gradients& gradients, int group) {
  KeyGroup<T> state;
  for (RingPosition<kTiles> slot;; slot.advance()) {
    barrier_wait(&shared.tile_full[slot.stage], slot.parity);
    const int index = shared.tile[slot.stage];
    if (index < 0) return;
    const KeyTile<DOCUMENTS> tile(problem, index);
    const int row = tile.row + group * kRows;
#pragma unroll
    for (int e = 0; e < kHeadSize / 2; ++e) state.dk[e] = state.dv[e] = 0.0f;
    for (int step = tile.last_step; step >= tile.first_step; --step) {
      for (int member = 0; member < problem.group(); ++member) {
        state.step(shared, slot.stage, group, problem.scale * kLog2E,
                   [&](float(&scores)[kTile / 2], const Statistics(&statistics)[2]) {
                     if (step == tile.first_step) mask_later_keys(scores, row, step * kTile);
                     if constexpr (DOCUMENTS) mask_earlier_keys(scores, statistics, row);
                   });
      }
    }
    barrier_arrive_warp(&shared.tile_empty[slot.stage]);
    const float one[2] = {1.0f, 1.0f}, scale[2] = {problem.scale, problem.scale};
    const Count offset = problem.dkv.head_of(tile.sample, tile.kv_head, kHeadSize);
    store_rows<T, kHeadSize>(state.dk, scale, static_cast<T*>(gradients.dk) + offset, problem.dkv.stride, row, problem.keys);
    store_rows<T, kHeadSize>(state.dv, one, static_cast<T*>(gradients.dv) + offset, problem.dkv.stride, row, problem.keys);
  }
}

}  // namespace cohort::ops::cuda::hopper::joint
