// Forward pass of the portable flash attention (FlashAttention-2, Dao 2023, sections 3.1 to 3.3) for bf16 and fp16.
//
// A block of four warps takes 128 queries of one head, 32 for each warp, and walks over the tiles of keys and values that these
// queries see, from the diagonal back to the first. Thirty-two queries for a warp, not sixteen, because a warp reads every key
// and value from shared memory: with two 16-row products for each operand read, the tensor cores, not the reads, set the pace.
// Keys and values have one buffer each: while a tile of one kind is multiplied, the next of the other kind is on its way.
#include "ops/cuda/attention/flash_attention_common.cuh"
#include "ops/cuda/attention/flash_attention_documents.cuh"
#include "ops/cuda/attention/flash_attention_store.cuh"
#include "ops/cuda/attention/flash_attention_tiles.cuh"

namespace cohort::ops::cuda::flash {
namespace {

constexpr int kThreads = 128;
constexpr int kWarpRows = 32;
constexpr int kQueries = kThreads / kWarpSize * kWarpRows;
constexpr int kKeys = 64;
constexpr int kKeyTiles = kKeys / 8;

/// The running softmax of one 16-row tile: each lane has a share of two rows.
struct RunningSoftmax {
  float largest[2] = {-INFINITY, -INFINITY};  // the same in the four lanes that share a row
  float sum[2] = {0.0f, 0.0f};                // of this lane's columns only

  /// Turns scores into 2^((score - largest) scale_log2) and returns in `correction` what earlier sums must be multiplied with. In
  /// a block a row may not have seen any key yet: its weights are then 0, not what infinity minus infinity gives.
  __device__ void step(float (&scores)[kKeyTiles][4], float (&correction)[2], float scale_log2) {
    float offset[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float top = largest[r];
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) top = fmaxf(top, fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
      const float base = top == -INFINITY ? 0.0f : top;
      correction[r] = power_of_two((largest[r] - base) * scale_log2);
      largest[r] = top;
      sum[r] *= correction[r];
      offset[r] = -base * scale_log2;
    }
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[n][i] = power_of_two(fmaf(scores[n][i], scale_log2, offset[i / 2]));
        sum[i / 2] += scores[n][i];
      }
    }
  }

  /// The sums over all columns.
  __device__ void finish() {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 1);
      sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 2);
    }
  }
};

/// Scores become weights, the earlier sums are corrected; dropout acts on the weights after the denominator took them in.
template <int D, bool kDropout>
__device__ void softmax_step(RunningSoftmax (&softmax)[2], float (&scores)[2][kKeyTiles][4], float (&sums)[2][D / 8][4],
                             float scale_log2, const DropoutMask* mask, int query, int key) {
#pragma unroll
  for (int m = 0; m < 2; ++m) {
    float correction[2];
    softmax[m].step(scores[m], correction, scale_log2);
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[m][n][i] *= correction[i / 2];
    }
    if constexpr (kDropout) {
      const std::uint32_t keep = keep_bits<kKeyTiles, false>(*mask, query + 16 * m, key);
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) scores[m][n][i] = (keep >> (4 * n + i)) & 1u ? scores[m][n][i] : 0.0f;
      }
    }
  }
}

template <int D>
constexpr int shared_bytes() {
  return Tile<D>::bytes(kQueries + 2 * kKeys);
}

template <class Element, int D, bool kDropout, bool kDocuments>
__global__ void __launch_bounds__(kThreads, 2)
    flash_attention_forward_kernel(void* out, float* lse, Operands<Element> operands, Sizes s, FlashDropout dropout,
                                   Documents documents) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const std::uint32_t q_tile = shared_address(shared);
  const std::uint32_t k_tile = q_tile + Tile<D>::bytes(kQueries);
  const std::uint32_t v_tile = k_tile + Tile<D>::bytes(kKeys);

  const int blocks = divide_up(s.queries, kQueries);
  const WorkItem item(blocks, s.heads);
  const int block_query = (blocks - 1 - item.block) * kQueries;  // the last queries see the most keys: the heaviest block
  const int warp_row = warp_id() * kWarpRows;
  const int query = block_query + warp_row;  // the first of this warp
  const int kv = item.head / s.group();
  const Element* q = operands.q + s.head_of(s.q, item.b, item.head);
  const Element* k = operands.k + s.head_of(s.kv, item.b, kv);
  const Element* v = operands.v + s.head_of(s.kv, item.b, kv);
  const float scale_log2 = s.scale * kLog2e;
  const DropoutMask mask(dropout, s, item.b, item.head);

  float sums[2][D / 8][4];
  clear(sums);
  RunningSoftmax softmax[2];
  const int tiles = divide_up(s.visible_keys(min(block_query + kQueries, s.queries) - 1), kKeys);
  const int first_tile = kDocuments ? documents.hidden_keys(s, item.b, block_query) / kKeys : 0;
  const OwnDocuments<kDocuments> own(documents, s, item.b, query);
  load_tile<D, kQueries, kThreads>(q_tile, q, s.q.stride, block_query, s.queries, s.head_size);
  if (tiles > first_tile) load_tile<D, kKeys, kThreads>(k_tile, k, s.kv.stride, (tiles - 1) * kKeys, s.keys, s.head_size);
  for (int j = tiles - 1; j >= first_tile; --j) {
    const int key = j * kKeys;
    // A warp skips tiles above the diagonal, and those before its documents.
    const bool visible = key < query + kWarpRows + s.shift() && own.reach(key + kKeys);
    float scores[2][kKeyTiles][4];
    wait_copies();
    __syncthreads();  // the keys are there, and all warps are done with the previous values
    load_tile<D, kKeys, kThreads>(v_tile, v, s.kv.stride, key, s.keys, s.head_size);
    if (visible) multiply_rows<Element, D>(scores, q_tile, warp_row, k_tile);
    wait_copies();
    __syncthreads();  // the values are there, and all warps are done with the keys
    if (j > first_tile) load_tile<D, kKeys, kThreads>(k_tile, k, s.kv.stride, key - kKeys, s.keys, s.head_size);
    if (visible) {
      if (key + kKeys - 1 > query + s.shift()) hide_future<false>(scores, query + s.shift(), key);
      if (key + kKeys > s.keys) hide_columns(scores, key, s.keys);
      own.hide_earlier_keys(scores, key);
      softmax_step<D, kDropout>(softmax, scores, sums, scale_log2, &mask, query, key);
      std::uint32_t weights[2][kKeyTiles / 2][4];
      pack_weights<Element>(weights, scores);
      multiply_weights<Element, D>(sums, weights, v_tile);
    }
  }
  wait_copies();  // where no tile was visible: no thread may end while its copies are under way

  float factor[2][2];
  float* head_lse = lse + s.lse_offset(item.b, item.head);
#pragma unroll
  for (int m = 0; m < 2; ++m) {
    softmax[m].finish();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      // A query that sees no key has sum 0 and largest -infinity: it gets 0, and -infinity for lse.
      const float sum = softmax[m].sum[r];
      factor[m][r] = sum == 0.0f ? 0.0f : (kDropout ? dropout.keep_scale : 1.0f) / sum;
      const int row = query + 16 * m + 8 * r + lane_id() / 4;
      if (lane_id() % 4 == 0 && row < s.queries) head_lse[row] = softmax[m].largest[r] * s.scale + logf(sum);
    }
  }
  const Count offset = s.head_of(s.out, item.b, item.head);
  if (s.block) {
    store_fp32_rows<D>(static_cast<float*>(out) + offset, s.out.stride, query, s.queries, s.head_size, sums, factor, false);
  } else {
    store_rows<Element, D>(static_cast<Element*>(out) + offset, s.out.stride, query, s.queries, s.head_size, q_tile, warp_row,
                           sums, factor);
  }
}

}  // namespace

void forward_narrow(CUstream_st* stream, DType dtype, const Sizes& s, void* out, float* lse, const Operands<void>& operands,
                    const FlashDropout& dropout, const Documents& documents) {
  const Count blocks = Count{s.batch} * s.heads * divide_up(s.queries, kQueries);
  with_kernel_types(dtype, s.head_size, [&](auto element, auto tile_width) {
    using Element = decltype(element);
    constexpr int D = decltype(tile_width)::value;
    with_variant(dropout, documents, [&](auto drops, auto packed) {
      launch(flash_attention_forward_kernel<Element, D, decltype(drops)::value, decltype(packed)::value>, stream, blocks,
             kThreads, shared_bytes<D>(), out, lse, typed<Element>(operands), s, dropout, documents);
    });
  });
}

}  // namespace cohort::ops::cuda::flash
