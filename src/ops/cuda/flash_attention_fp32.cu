// Flash attention in plain fp32 multiplications and additions, for parity with the CPU: the same walk over tiles as in the 16-bit
// kernels (FlashAttention-2, Dao 2023), written for exactness and for reading, not for speed.
//
// Eight threads share a row of the tile that a block owns: for a product with that row thread t computes columns t, t + 8, ... of
// the scores, and holds elements t, t + 8, ... of the row's result.
#include "ops/cuda/flash_attention_common.cuh"

#include <cmath>
#include <type_traits>

namespace cohort::ops::cuda::flash {
namespace {

constexpr int kLanes = 8;  // threads of one row

/// D is the head size rounded up to 64, 128 or 256: what is beyond the head is zero in shared memory.
template <int D>
struct Shape {
  static constexpr int kRows = D <= 128 ? 32 : 16;  // of all tiles; four tiles fit the 99 KiB of the smallest multiprocessor
  static constexpr int kThreads = kRows * kLanes;
  static constexpr int kStride = D + 1;  // odd, so that the same column of neighbouring rows lies in different banks
  static constexpr int kWeightStride = kRows + 1;
  static constexpr int kTile = kRows * kStride;
  static constexpr int kWeights = kRows * kWeightStride;
  static constexpr int bytes(int tiles, int weights) {
    return (tiles * kTile + weights * kWeights) * static_cast<int>(sizeof(float));
  }
};

__device__ int row_of_thread() { return static_cast<int>(threadIdx.x) / kLanes; }
__device__ int lane_of_thread() { return static_cast<int>(threadIdx.x) % kLanes; }

/// Copies rows [begin, begin + kRows) of a head to a tile; zeros from row `end` and from column `head_size` on.
template <int D>
__device__ void load(float* tile, const float* head, int stride, int begin, int end, int head_size) {
  for (int i = static_cast<int>(threadIdx.x); i < Shape<D>::kRows * D; i += Shape<D>::kThreads) {
    const int row = i / D;
    const int d = i % D;
    const bool valid = begin + row < end && d < head_size;
    tile[row * Shape<D>::kStride + d] = valid ? head[Count{begin + row} * stride + d] : 0.0f;
  }
}

template <int D>
__device__ float dot(const float* x, const float* y) {
  float sum = 0.0f;
#pragma unroll 16
  for (int d = 0; d < D; ++d) sum = fmaf(x[d], y[d], sum);
  return sum;
}

/// result += sum over the rows of a tile, each times its weight.
template <int D>
__device__ void add_rows(float (&result)[D / kLanes], const float* weights, const float* tile) {
  for (int j = 0; j < Shape<D>::kRows; ++j) {
    const float weight = weights[j];
    const float* row = tile + j * Shape<D>::kStride + lane_of_thread();
#pragma unroll
    for (int i = 0; i < D / kLanes; ++i) result[i] = fmaf(weight, row[i * kLanes], result[i]);
  }
}

template <int D>
__device__ void store(float* row, const float (&values)[D / kLanes], float scale, int head_size) {
#pragma unroll
  for (int i = 0; i < D / kLanes; ++i) {
    const int d = lane_of_thread() + i * kLanes;
    if (d < head_size) row[d] = values[i] * scale;
  }
}

/// Sum over the eight threads of a row.
__device__ float row_sum(float x) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(0xffffffffu, x, distance);
  return x;
}
__device__ float row_max(float x) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, distance));
  return x;
}

template <int D>
__global__ void __launch_bounds__(Shape<D>::kThreads)
    flash_attention_forward_fp32_kernel(float* out, float* lse, const float* qkv, Sizes s, FlashDropout dropout) {
  using S = Shape<D>;
  extern __shared__ float memory[];
  float* const q = memory;
  float* const k = q + S::kTile;
  float* const v = k + S::kTile;
  float* const weights = v + S::kTile + row_of_thread() * S::kWeightStride;

  const int blocks = divide_up(s.tokens, S::kRows);
  const WorkItem item(blocks, s.heads);
  const int first = (blocks - 1 - item.block) * S::kRows;
  const int query = first + row_of_thread();
  const int kv = item.head / s.group();
  const int stride = s.packed_width();
  const float* k_head = qkv + s.packed_offset(item.b, s.key_column(kv));
  const float* v_head = qkv + s.packed_offset(item.b, s.value_column(kv));
  const DropoutMask mask(dropout, s, item.b, item.head);

  float largest = -INFINITY;
  float sum = 0.0f;  // of this thread's columns
  float result[D / kLanes] = {};
  load<D>(q, qkv + s.packed_offset(item.b, item.head), stride, first, s.tokens, s.head_size);
  for (int begin = 0; begin < first + S::kRows; begin += S::kRows) {
    __syncthreads();  // all are done with the previous tile
    load<D>(k, k_head, stride, begin, s.tokens, s.head_size);
    load<D>(v, v_head, stride, begin, s.tokens, s.head_size);
    __syncthreads();
    float scores[S::kRows / kLanes];
    float top = largest;
    for (int i = 0; i < S::kRows / kLanes; ++i) {
      const int j = lane_of_thread() + i * kLanes;
      const bool visible = begin + j <= query;
      scores[i] = visible ? s.scale * dot<D>(q + row_of_thread() * S::kStride, k + j * S::kStride) : -INFINITY;
      top = fmaxf(top, scores[i]);
    }
    top = row_max(top);
    const float correction = expf(largest - top);  // key 0 is visible to all: top is finite from the first tile on
    largest = top;
    sum *= correction;
    for (int i = 0; i < S::kRows / kLanes; ++i) {
      const int j = lane_of_thread() + i * kLanes;
      const float weight = expf(scores[i] - top);
      sum += weight;
      weights[j] = mask.active() && !mask.keeps(query, begin + j) ? 0.0f : weight;
    }
    __syncwarp();  // the threads of a row are of one warp
#pragma unroll
    for (int i = 0; i < D / kLanes; ++i) result[i] *= correction;
    add_rows<D>(result, weights, v);
  }
  sum = row_sum(sum);
  if (query < s.tokens) {
    const float keep_scale = mask.active() ? dropout.keep_scale : 1.0f;
    store<D>(out + s.out_offset(item.b, item.head) + Count{query} * s.width(), result, keep_scale / sum, s.head_size);
    if (lane_of_thread() == 0) lse[s.row_offset(item.b, item.head) + query] = largest + logf(sum);
  }
}

/// dq, and delta for the kernel of dk and dv.
template <int D>
__global__ void __launch_bounds__(Shape<D>::kThreads)
    flash_attention_backward_query_fp32_kernel(float* dqkv, float* delta, const float* dout, const float* out, const float* lse,
                                               const float* qkv, Sizes s, FlashDropout dropout) {
  using S = Shape<D>;
  extern __shared__ float memory[];
  float* const q = memory;
  float* const g = q + S::kTile;  // dout
  float* const k = g + S::kTile;
  float* const v = k + S::kTile;
  float* const ds = v + S::kTile + row_of_thread() * S::kWeightStride;

  const int blocks = divide_up(s.tokens, S::kRows);
  const WorkItem item(blocks, s.heads);
  const int first = (blocks - 1 - item.block) * S::kRows;
  const int query = first + row_of_thread();
  const int kv = item.head / s.group();
  const int stride = s.packed_width();
  const Count out_offset = s.out_offset(item.b, item.head);
  const Count row_offset = s.row_offset(item.b, item.head);
  const float* k_head = qkv + s.packed_offset(item.b, s.key_column(kv));
  const float* v_head = qkv + s.packed_offset(item.b, s.value_column(kv));
  const DropoutMask mask(dropout, s, item.b, item.head);

  load<D>(q, qkv + s.packed_offset(item.b, item.head), stride, first, s.tokens, s.head_size);
  load<D>(g, dout + out_offset, s.width(), first, s.tokens, s.head_size);
  __syncthreads();
  const bool valid = query < s.tokens;
  float row_delta = 0.0f;
  for (int d = lane_of_thread(); d < s.head_size && valid; d += kLanes) {
    row_delta = fmaf(g[row_of_thread() * S::kStride + d], out[out_offset + Count{query} * s.width() + d], row_delta);
  }
  row_delta = row_sum(row_delta);
  if (valid && lane_of_thread() == 0) delta[row_offset + query] = row_delta;
  const float row_lse = valid ? lse[row_offset + query] : 0.0f;

  float dq[D / kLanes] = {};
  for (int begin = 0; begin < first + S::kRows; begin += S::kRows) {
    __syncthreads();  // all are done with the previous tile
    load<D>(k, k_head, stride, begin, s.tokens, s.head_size);
    load<D>(v, v_head, stride, begin, s.tokens, s.head_size);
    __syncthreads();
    for (int j = lane_of_thread(); j < S::kRows; j += kLanes) {
      float gradient = 0.0f;
      if (begin + j <= query) {
        const float weight = expf(s.scale * dot<D>(q + row_of_thread() * S::kStride, k + j * S::kStride) - row_lse);
        float dp = dot<D>(g + row_of_thread() * S::kStride, v + j * S::kStride);
        if (mask.active()) dp = mask.keeps(query, begin + j) ? dp * dropout.keep_scale : 0.0f;
        gradient = weight * (dp - row_delta);
      }
      ds[j] = gradient;
    }
    __syncwarp();
    add_rows<D>(dq, ds, k);
  }
  if (valid) store<D>(dqkv + s.packed_offset(item.b, item.head) + Count{query} * stride, dq, s.scale, s.head_size);
}

/// dk and dv of a tile of keys, summed over the queries of all heads of the group.
template <int D>
__global__ void __launch_bounds__(Shape<D>::kThreads)
    flash_attention_backward_key_fp32_kernel(float* dqkv, const float* delta, const float* dout, const float* lse,
                                             const float* qkv, Sizes s, FlashDropout dropout) {
  using S = Shape<D>;
  extern __shared__ float memory[];
  float* const k = memory;
  float* const v = k + S::kTile;
  float* const q = v + S::kTile;
  float* const g = q + S::kTile;  // dout
  float* const p = g + S::kTile + row_of_thread() * S::kWeightStride;
  float* const ds = p + S::kWeights;

  const WorkItem item(divide_up(s.tokens, S::kRows), s.kv_heads);
  const int first = item.block * S::kRows;
  const int key = first + row_of_thread();
  const int stride = s.packed_width();
  const Count k_offset = s.packed_offset(item.b, s.key_column(item.head));
  const Count v_offset = s.packed_offset(item.b, s.value_column(item.head));

  float dk[D / kLanes] = {};
  float dv[D / kLanes] = {};
  load<D>(k, qkv + k_offset, stride, first, s.tokens, s.head_size);
  load<D>(v, qkv + v_offset, stride, first, s.tokens, s.head_size);
  for (int h = item.head * s.group(); h < (item.head + 1) * s.group(); ++h) {
    const Count row_offset = s.row_offset(item.b, h);
    const DropoutMask mask(dropout, s, item.b, h);
    for (int begin = first; begin < s.tokens; begin += S::kRows) {
      __syncthreads();  // all are done with the previous tile
      load<D>(q, qkv + s.packed_offset(item.b, h), stride, begin, s.tokens, s.head_size);
      load<D>(g, dout + s.out_offset(item.b, h), s.width(), begin, s.tokens, s.head_size);
      __syncthreads();
      for (int j = lane_of_thread(); j < S::kRows; j += kLanes) {
        const int query = begin + j;
        p[j] = ds[j] = 0.0f;
        if (query < s.tokens && key <= query) {
          const float score = s.scale * dot<D>(k + row_of_thread() * S::kStride, q + j * S::kStride);
          const float weight = expf(score - lse[row_offset + query]);
          const float dp = dot<D>(v + row_of_thread() * S::kStride, g + j * S::kStride);
          const float factor = !mask.active() ? 1.0f : mask.keeps(query, key) ? dropout.keep_scale : 0.0f;
          p[j] = weight * factor;
          ds[j] = weight * (dp * factor - delta[row_offset + query]);
        }
      }
      __syncwarp();
      add_rows<D>(dv, p, g);
      add_rows<D>(dk, ds, q);
    }
  }
  if (key < s.tokens) {
    store<D>(dqkv + k_offset + Count{key} * stride, dk, s.scale, s.head_size);
    store<D>(dqkv + v_offset + Count{key} * stride, dv, 1.0f, s.head_size);
  }
}

template <class F>
void with_width(int head_size, const F& f) {
  if (head_size <= 64) {
    f(std::integral_constant<int, 64>{});
  } else if (head_size <= 128) {
    f(std::integral_constant<int, 128>{});
  } else {
    f(std::integral_constant<int, 256>{});
  }
}

}  // namespace

void forward_fp32(CUstream_st* stream, const Sizes& s, float* out, float* lse, const float* qkv, const FlashDropout& dropout) {
  with_width(s.head_size, [&](auto width) {
    constexpr int D = decltype(width)::value;
    const Count blocks = Count{s.batch} * s.heads * divide_up(s.tokens, Shape<D>::kRows);
    launch(flash_attention_forward_fp32_kernel<D>, stream, blocks, Shape<D>::kThreads, Shape<D>::bytes(3, 1), out, lse, qkv, s,
           dropout);
  });
}

void backward_fp32(CUstream_st* stream, const Sizes& s, float* dqkv, const float* dout, const float* out, const float* lse,
                   const float* qkv, float* delta, const FlashDropout& dropout) {
  with_width(s.head_size, [&](auto width) {
    constexpr int D = decltype(width)::value;
    const Count blocks = Count{s.batch} * divide_up(s.tokens, Shape<D>::kRows);
    launch(flash_attention_backward_query_fp32_kernel<D>, stream, blocks * s.heads, Shape<D>::kThreads, Shape<D>::bytes(4, 1),
           dqkv, delta, dout, out, lse, qkv, s, dropout);
    launch(flash_attention_backward_key_fp32_kernel<D>, stream, blocks * s.kv_heads, Shape<D>::kThreads, Shape<D>::bytes(4, 2),
           dqkv, delta, dout, lse, qkv, s, dropout);
  });
}

}  // namespace cohort::ops::cuda::flash
