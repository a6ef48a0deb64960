// Forward pass of the portable flash attention (FlashAttention-2, Dao 2023, sections 3.1 to 3.3) for bf16 and fp16, and the entry
// for all types.
//
// A block of four warps takes 128 queries of one head, 32 for each warp, and walks over the tiles of keys and values that these
// queries see, from the diagonal back to the first. Thirty-two queries for a warp, not sixteen, because a warp reads every key
// and value from shared memory: with two 16-row products for each operand read, the tensor cores, not the reads, set the pace.
// Keys and values have one buffer each: while a tile of one kind is multiplied, the next of the other kind is on its way.
#include "ops/cuda/flash_attention_common.cuh"
#include "ops/cuda/flash_attention_tiles.cuh"

#include <cmath>

namespace cohort::ops::cuda {
namespace flash {
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

  /// Turns scores into 2^((score - largest) scale_log2) and returns in `correction` what earlier sums must be multiplied with.
  __device__ void step(float (&scores)[kKeyTiles][4], float (&correction)[2], float scale_log2) {
    float offset[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float top = largest[r];
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) top = fmaxf(top, fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
      correction[r] = power_of_two((largest[r] - top) * scale_log2);
      largest[r] = top;
      sum[r] *= correction[r];
      offset[r] = -top * scale_log2;
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

template <class Element, int D, bool kDropout>
__global__ void __launch_bounds__(kThreads, 2)
    flash_attention_forward_kernel(Element* out, float* lse, const Element* qkv, Sizes s, FlashDropout dropout) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const std::uint32_t q_tile = shared_address(shared);
  const std::uint32_t k_tile = q_tile + Tile<D>::bytes(kQueries);
  const std::uint32_t v_tile = k_tile + Tile<D>::bytes(kKeys);

  const int blocks = divide_up(s.tokens, kQueries);
  const WorkItem item(blocks, s.heads);
  const int block_query = (blocks - 1 - item.block) * kQueries;  // the last queries see the most keys: the heaviest block
  const int warp_row = warp_id() * kWarpRows;
  const int query = block_query + warp_row;  // the first of this warp
  const int kv = item.head / s.group();
  const int stride = s.packed_width();
  const Element* k = qkv + s.packed_offset(item.b, s.key_column(kv));
  const Element* v = qkv + s.packed_offset(item.b, s.value_column(kv));
  const float scale_log2 = s.scale * kLog2e;
  const DropoutMask mask(dropout, s, item.b, item.head);

  float sums[2][D / 8][4];
  clear(sums);
  RunningSoftmax softmax[2];
  const int last = (min(block_query + kQueries, s.tokens) - 1) / kKeys;
  load_tile<D, kQueries, kThreads>(q_tile, qkv + s.packed_offset(item.b, item.head), stride, block_query, s.tokens, s.head_size);
  load_tile<D, kKeys, kThreads>(k_tile, k, stride, last * kKeys, s.tokens, s.head_size);
  for (int j = last; j >= 0; --j) {
    const int key = j * kKeys;
    // A warp skips tiles above the diagonal. Its first tile then has a visible key for every row, because tiles begin at
    // multiples of 64 and warps at multiples of 32: no row's maximum stays at minus infinity.
    const bool visible = key < query + kWarpRows;
    float scores[2][kKeyTiles][4];
    wait_copies();
    __syncthreads();  // the keys are there, and all warps are done with the previous values
    load_tile<D, kKeys, kThreads>(v_tile, v, stride, key, s.tokens, s.head_size);
    if (visible) multiply_rows<Element, D>(scores, q_tile, warp_row, k_tile);
    wait_copies();
    __syncthreads();  // the values are there, and all warps are done with the keys
    if (j > 0) load_tile<D, kKeys, kThreads>(k_tile, k, stride, key - kKeys, s.tokens, s.head_size);
    if (visible) {
      if (key + kKeys - 1 > query) hide_future<false>(scores, query, key);
      softmax_step<D, kDropout>(softmax, scores, sums, scale_log2, &mask, query, key);
      std::uint32_t weights[2][kKeyTiles / 2][4];
      pack_weights<Element>(weights, scores);
      multiply_weights<Element, D>(sums, weights, v_tile);
    }
  }

  float factor[2][2];
  float* head_lse = lse + s.row_offset(item.b, item.head);
#pragma unroll
  for (int m = 0; m < 2; ++m) {
    softmax[m].finish();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      factor[m][r] = (kDropout ? dropout.keep_scale : 1.0f) / softmax[m].sum[r];
      const int row = query + 16 * m + 8 * r + lane_id() / 4;
      if (lane_id() % 4 == 0 && row < s.tokens) head_lse[row] = softmax[m].largest[r] * s.scale + logf(softmax[m].sum[r]);
    }
  }
  store_rows<Element, D>(out + s.out_offset(item.b, item.head), s.width(), query, s.tokens, s.head_size, q_tile, warp_row, sums,
                         factor);
}

}  // namespace

Sizes sizes_of(const AttentionShape& shape) {
  return {static_cast<int>(shape.batch),     static_cast<int>(shape.tokens),
          static_cast<int>(shape.heads),     static_cast<int>(shape.kv_heads),
          static_cast<int>(shape.head_size), static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_size)))};
}

}  // namespace flash

bool flash_attention_supports(DType dtype, const AttentionShape& shape) {
  if (shape.batch < 1 || shape.tokens < 1 || shape.kv_heads < 1 || shape.heads < 1 || shape.heads % shape.kv_heads != 0 ||
      shape.head_size < 1) {
    return false;
  }
  constexpr Count kMost = 0x7fffffff;  // elements of a sample, and blocks of a launch, whose smallest have 16 rows
  if (shape.tokens > kMost / shape.packed_width() || shape.batch > kMost / (shape.heads * ((shape.tokens + 15) / 16)))
    return false;
  if (dtype == DType::f32) return shape.head_size <= 256;
  if (dtype != DType::bf16 && dtype != DType::f16) return false;
  return shape.head_size <= 128 && shape.head_size % 8 == 0;
}

void flash_attention_forward(CUstream_st* stream, DType dtype, const AttentionShape& shape, void* out, float* lse,
                             const void* qkv, const FlashDropout& dropout) {
  const flash::Sizes s = flash::sizes_of(shape);
  if (dtype == DType::f32) {
    flash::forward_fp32(stream, s, static_cast<float*>(out), lse, static_cast<const float*>(qkv), dropout);
    return;
  }
  const Count blocks = shape.batch * shape.heads * flash::divide_up(s.tokens, flash::kQueries);
  flash::with_kernel_types(dtype, s.head_size, [&](auto element, auto tile_width) {
    using Element = decltype(element);
    constexpr int D = decltype(tile_width)::value;
    const auto kernel = dropout.threshold == 0 ? flash::flash_attention_forward_kernel<Element, D, false>
                                               : flash::flash_attention_forward_kernel<Element, D, true>;
    flash::launch(kernel, stream, blocks, flash::kThreads, flash::shared_bytes<D>(), static_cast<Element*>(out), lse,
                  static_cast<const Element*>(qkv), s, dropout);
  });
}

}  // namespace cohort::ops::cuda
