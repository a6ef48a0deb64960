// The two kernels of text generation on NVIDIA GPUs, both bound by the memory they read: the product of a weight with few rows,
// and attention of new tokens against a KV cache. The same functions as in ops/row_product.hpp and ops/cached_attention.hpp.
//
// Elements are of type `dtype` (fp32, bf16 or fp16); sums are fp32. All pointers are device pointers. Fast if rows (of the
// weight; of heads) are multiples of 16 bytes and the memory is aligned to 16 bytes.
//
// Launchers only enqueue: no synchronisation, no allocation; launch errors are left for the caller's cudaGetLastError.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "base/units.hpp"

struct CUstream_st;  // *CUstream_st is cudaStream_t

namespace cohort::ops::cuda {

struct RowProductArrays {
  Count rows;  // R
  Count n, k;
  void* y;  // [R, y_stride], of which the first N columns are written
  Count y_stride;
  const void* x;         // [R, K]
  const void* weight;    // [N, K]
  const void* residual;  // [R, N], or null
  const void* bias;      // [N], or null
};

/// y = x weight^T + residual + bias. Reads the weight once for up to 8 rows. A row's bits do not depend on the other rows.
void row_product(CUstream_st* stream, DType dtype, const RowProductArrays& arrays);

struct CachedAttentionArrays {
  Count rows;  // R
  int heads, kv_heads, head_size;
  Count packed_width;             // (NH + 2 NKV) HS
  Count tokens;                   // T, positions of a slot
  const void* qkv;                // [R, packed_width], of which the query heads are read
  const void* keys;               // [S, NKV, T, HS]
  const void* values;             // likewise
  const std::int32_t* slots;      // [R]
  const std::int32_t* positions;  // [R]
  void* out;                      // [R, NH HS]
  Count part_keys;                // positions of a part
  Count parts;                    // of the longest text
  // Partial results, of part p of head h of row r at (r NH + h) parts + p: sums of weights times values [entries, HS], the
  // largest scores [entries], the sums of weights [entries].
  float* part_out;
  float* part_most;
  float* part_sum;
};

/// A block takes a part of the keys of one head; a second kernel merges the parts. part_keys is at most kMostPartKeys.
void cached_attention(CUstream_st* stream, DType dtype, const CachedAttentionArrays& arrays);
inline constexpr Count kMostPartKeys = 128;

}  // namespace cohort::ops::cuda
