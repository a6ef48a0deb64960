// Flash attention in plain fp32 multiplications and additions, for parity with the CPU: the same walk over tiles as in the 16-bit
// kernels (FlashAttention-2, Dao 2023), written for exactness and for reading, not for speed.
//
// Eight threads share a row of the tile that a block owns: for a product with that row thread t computes columns t, t + 8, ... of
// the scores, and holds elements t, t + 8, ... of the row's result.
#include "ops/cuda/attention/flash_attention_common.cuh"

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

/// With `add` on top of what is there.
template <int D>
__device__ void store(float* row, const float (&values)[D / kLanes], float scale, int head_size, bool add) {
#pragma unroll
  for (int i = 0; i < D / kLanes; ++i) {
    const int d = lane_of_thread() + i * kLanes;
    if (d < head_size) row[d] = add ? fmaf(values[i], scale, row[d]) : values[i] * scale;
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
    flash_attention_forward_fp32_kernel(float* out, float* lse, Operands<float> operands, Sizes s, FlashDropout dropout,
                                        Documents documents) {
  using S = Shape<D>;
  extern __shared__ float memory[];
  float* const q = memory;
  float* const k = q + S::kTile;
  float* const v = k + S::kTile;
  float* const weights = v + S::kTile + row_of_thread() * S::kWeightStride;

  const int blocks = divide_up(s.queries, S::kRows);
  const WorkItem item(blocks, s.heads);
  const int first = (blocks - 1 - item.block) * S::kRows;
  const int query = first + row_of_thread();
  const int visible = s.visible_keys(query);
  const int hidden = documents.hidden_keys(s, item.b, query);
  const int end = s.visible_keys(min(first + S::kRows, s.queries) - 1);  // of the keys that the block needs
  const int kv = item.head / s.group();
  const float* k_head = operands.k + s.head_of(s.kv, item.b, kv);
  const float* v_head = operands.v + s.head_of(s.kv, item.b, kv);
  const DropoutMask mask(dropout, s, item.b, item.head);

  float largest = -INFINITY;
  float sum = 0.0f;  // of this thread's columns
  float result[D / kLanes] = {};
  load<D>(q, operands.q + s.head_of(s.q, item.b, item.head), s.q.stride, first, s.queries, s.head_size);
  for (int begin = documents.hidden_keys(s, item.b, first); begin < end; begin += S::kRows) {
    __syncthreads();  // all are done with the previous tile
    load<D>(k, k_head, s.kv.stride, begin, s.keys, s.head_size);
    load<D>(v, v_head, s.kv.stride, begin, s.keys, s.head_size);
    __syncthreads();
    float scores[S::kRows / kLanes];
    float top = largest;
    for (int i = 0; i < S::kRows / kLanes; ++i) {
      const int j = lane_of_thread() + i * kLanes;
      const bool seen = begin + j >= hidden && begin + j < visible;
      scores[i] = seen ? s.scale * dot<D>(q + row_of_thread() * S::kStride, k + j * S::kStride) : -INFINITY;
      top = fmaxf(top, scores[i]);
    }
    top = row_max(top);
    const float base = top == -INFINITY ? 0.0f : top;  // a query that sees no key has weights 0
    const float correction = expf(largest - base);
    largest = top;
    sum *= correction;
    for (int i = 0; i < S::kRows / kLanes; ++i) {
      const int j = lane_of_thread() + i * kLanes;
      const float weight = expf(scores[i] - base);
      sum += weight;
      weights[j] = mask.active() && !mask.keeps(query, begin + j) ? 0.0f : weight;
    }
    __syncwarp();  // the threads of a row are of one warp
#pragma unroll
    for (int i = 0; i < D / kLanes; ++i) result[i] *= correction;
    add_rows<D>(result, weights, v);
  }
  sum = row_sum(sum);
  if (query < s.queries) {
    const float keep_scale = mask.active() ? dropout.keep_scale : 1.0f;
    store<D>(out + s.head_of(s.out, item.b, item.head) + Count{query} * s.out.stride, result,
             sum == 0.0f ? 0.0f : keep_scale / sum, s.head_size, false);
    if (lane_of_thread() == 0) lse[s.lse_offset(item.b, item.head) + query] = largest + logf(sum);
  }
}

/// dq, and delta for the kernel of dk and dv.
template <int D>
__global__ void __launch_bounds__(Shape<D>::kThreads)
    flash_attention_backward_query_fp32_kernel(float* dq_rows, float* delta, const float* dout, const float* out,
                                               const float* lse, Operands<float> operands, Sizes s, FlashDropout dropout,
                                               Documents documents) {
  using S = Shape<D>;
  extern __shared__ float memory[];
  float* const q = memory;
  float* const g = q + S::kTile;  // dout
  float* const k = g + S::kTile;
  float* const v = k + S::kTile;
  float* const ds = v + S::kTile + row_of_thread() * S::kWeightStride;

  const int blocks = divide_up(s.queries, S::kRows);
  const WorkItem item(blocks, s.heads);
  const int first = (blocks - 1 - item.block) * S::kRows;
  const int query = first + row_of_thread();
  const int visible = s.visible_keys(query);
  const int hidden = documents.hidden_keys(s, item.b, query);
  const int end = s.visible_keys(min(first + S::kRows, s.queries) - 1);  // of the keys that the block needs
  const int kv = item.head / s.group();
  const Count out_offset = s.head_of(s.out, item.b, item.head);
  const float* k_head = operands.k + s.head_of(s.kv, item.b, kv);
  const float* v_head = operands.v + s.head_of(s.kv, item.b, kv);
  const DropoutMask mask(dropout, s, item.b, item.head);

  load<D>(q, operands.q + s.head_of(s.q, item.b, item.head), s.q.stride, first, s.queries, s.head_size);
  load<D>(g, dout + out_offset, s.out.stride, first, s.queries, s.head_size);
  __syncthreads();
  const bool valid = query < s.queries;
  float row_delta = 0.0f;
  for (int d = lane_of_thread(); d < s.head_size && valid; d += kLanes) {
    row_delta = fmaf(g[row_of_thread() * S::kStride + d], out[out_offset + Count{query} * s.out.stride + d], row_delta);
  }
  row_delta = row_sum(row_delta);
  if (valid && lane_of_thread() == 0) delta[s.delta_offset(item.b, item.head) + query] = row_delta;
  const float row_lse = valid ? lse[s.lse_offset(item.b, item.head) + query] : 0.0f;

  float dq[D / kLanes] = {};
  for (int begin = documents.hidden_keys(s, item.b, first); begin < end; begin += S::kRows) {
    __syncthreads();  // all are done with the previous tile
    load<D>(k, k_head, s.kv.stride, begin, s.keys, s.head_size);
    load<D>(v, v_head, s.kv.stride, begin, s.keys, s.head_size);
    __syncthreads();
    for (int j = lane_of_thread(); j < S::kRows; j += kLanes) {
      float gradient = 0.0f;
      if (begin + j >= hidden && begin + j < visible) {
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
  if (valid) {
    store<D>(dq_rows + s.head_of(s.dq, item.b, item.head) + Count{query} * s.dq.stride, dq, s.scale, s.head_size, s.block);
  }
}

/// dk and dv of a tile of keys, summed over the queries of all heads of the group.
template <int D>
__global__ void __launch_bounds__(Shape<D>::kThreads)
    flash_attention_backward_key_fp32_kernel(float* dk_rows, float* dv_rows, const float* delta, const float* dout,
                                             const float* lse, Operands<float> operands, Sizes s, FlashDropout dropout,
                                             Documents documents) {
  using S = Shape<D>;
  extern __shared__ float memory[];
  float* const k = memory;
  float* const v = k + S::kTile;
  float* const q = v + S::kTile;
  float* const g = q + S::kTile;  // dout
  float* const p = g + S::kTile + row_of_thread() * S::kWeightStride;
  float* const ds = p + S::kWeights;

  const WorkItem item(divide_up(s.keys, S::kRows), s.kv_heads);
  const int first = item.block * S::kRows;
  const int key = first + row_of_thread();
  const int first_query = max(0, first - s.shift());  // that sees a key of this block
  const int end_query = documents.end_of_queries(s, item.b, min(first + S::kRows, s.keys));
  const Count kv_offset = s.head_of(s.kv, item.b, item.head);

  float dk[D / kLanes] = {};
  float dv[D / kLanes] = {};
  load<D>(k, operands.k + kv_offset, s.kv.stride, first, s.keys, s.head_size);
  load<D>(v, operands.v + kv_offset, s.kv.stride, first, s.keys, s.head_size);
  for (int h = item.head * s.group(); h < (item.head + 1) * s.group(); ++h) {
    const float* const head_lse = lse + s.lse_offset(item.b, h);
    const float* const head_delta = delta + s.delta_offset(item.b, h);
    const DropoutMask mask(dropout, s, item.b, h);
    for (int begin = first_query; begin < end_query; begin += S::kRows) {
      __syncthreads();  // all are done with the previous tile
      load<D>(q, operands.q + s.head_of(s.q, item.b, h), s.q.stride, begin, s.queries, s.head_size);
      load<D>(g, dout + s.head_of(s.out, item.b, h), s.out.stride, begin, s.queries, s.head_size);
      __syncthreads();
      for (int j = lane_of_thread(); j < S::kRows; j += kLanes) {
        const int query = begin + j;
        p[j] = ds[j] = 0.0f;
        if (query < s.queries && key < s.visible_keys(query) && key >= documents.hidden_keys(s, item.b, query)) {
          const float score = s.scale * dot<D>(k + row_of_thread() * S::kStride, q + j * S::kStride);
          const float weight = expf(score - head_lse[query]);
          const float dp = dot<D>(v + row_of_thread() * S::kStride, g + j * S::kStride);
          const float factor = !mask.active() ? 1.0f : mask.keeps(query, key) ? dropout.keep_scale : 0.0f;
          p[j] = weight * factor;
          ds[j] = weight * (dp * factor - head_delta[query]);
        }
      }
      __syncwarp();
      add_rows<D>(dv, p, g);
      add_rows<D>(dk, ds, q);
    }
  }
  if (key < s.keys) {
    const Count row = s.head_of(s.dkv, item.b, item.head) + Count{key} * s.dkv.stride;
    store<D>(dk_rows + row, dk, s.scale, s.head_size, s.block);
    store<D>(dv_rows + row, dv, 1.0f, s.head_size, s.block);
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

void forward_fp32(CUstream_st* stream, const Sizes& s, float* out, float* lse, const Operands<float>& operands,
                  const FlashDropout& dropout, const Documents& documents) {
  with_width(s.head_size, [&](auto width) {
    constexpr int D = decltype(width)::value;
    const Count blocks = Count{s.batch} * s.heads * divide_up(s.queries, Shape<D>::kRows);
    launch(flash_attention_forward_fp32_kernel<D>, stream, blocks, Shape<D>::kThreads, Shape<D>::bytes(3, 1), out, lse, operands,
           s, dropout, documents);
  });
}

void backward_fp32(CUstream_st* stream, const Sizes& s, float* dq, float* dk, float* dv, const float* dout, const float* out,
                   const float* lse, const Operands<float>& operands, float* delta, const FlashDropout& dropout,
                   const Documents& documents) {
  with_width(s.head_size, [&](auto width) {
    constexpr int D = decltype(width)::value;
    // In this order: the first writes delta, which the second reads.
    launch(flash_attention_backward_query_fp32_kernel<D>, stream,
           Count{s.batch} * s.heads * divide_up(s.queries, Shape<D>::kRows), Shape<D>::kThreads, Shape<D>::bytes(4, 1), dq, delta,
           dout, out, lse, operands, s, dropout, documents);
    launch(flash_attention_backward_key_fp32_kernel<D>, stream, Count{s.batch} * s.kv_heads * divide_up(s.keys, Shape<D>::kRows),
           Shape<D>::kThreads, Shape<D>::bytes(4, 2), dk, dv, delta, dout, lse, operands, s, dropout, documents);
  });
}

}  // namespace cohort::ops::cuda::flash
