// What the Hopper attention kernels share: which tile a block works on next, the ring of buffers between the thread that loads
// and the warpgroups that compute, masks, and writing a result tile.
//
// Shape of all these kernels. One block per multiprocessor stays for the whole launch and takes tiles from a counter, heaviest
// first. Its last warpgroup loads: one thread of it fills the buffers by TMA. The other warpgroups compute, each on 64 rows of
// its own ("resident") against tiles ("streamed") that all of them read. They meet only at the buffers' barriers, so while one is
// at its exponentials another has the tensor cores.
#pragma once

#include <cuda_runtime.h>

#include "base/units.hpp"
#include "ops/cuda/common/hopper.cuh"

namespace cohort::ops::cuda::hopper {

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr int kRows = 64;  // rows of a warpgroup's tile, and of a TMA box

/// Tiles are numbered so that neighbours in time read the same streamed tiles while those are in the L2 cache: a section of heads
/// at a time, and within it all heads' heaviest tile, then all heads' second heaviest, and so on.
struct TileOrder {
  int heads;    // over all samples
  int levels;   // tiles of a head, the heaviest is level 0
  int section;  // heads of a section

  __host__ __device__ int tiles() const { return heads * levels; }
};

struct Tile {
  int head;
  int level;
};

__device__ inline Tile tile_at(const TileOrder& order, int index) {
  const int first = index / (order.section * order.levels) * order.section;
  const int inside = index % (order.section * order.levels);
  const int heads = min(order.section, order.heads - first);
  return {first + inside % heads, inside / heads};
}

/// Rows of an activation as they lie in memory: element (sample b, row r, column c) is at b * sample + r * stride + c.
struct Rows {
  Count sample;
  Count stride;

  __device__ Count head_of(int b, int head, int head_size) const { return b * sample + head * head_size; }
};

/// The problem as the kernels see it, whole attention and a block of it alike: `queries` rows of each sample against `keys` rows.
/// Tensor maps and pointers begin at the first of these rows.
struct Problem {
  int queries, keys;
  bool causal;        // query i sees the keys up to i, and there are as many; else all
  int heads;          // NH
  int kv_heads;       // NKV
  int first_key;      // column of key head 0 in the tensor map of keys and values; value head 0 follows the last key head
  Rows out, dq, dkv;  // dout is like out
  int lse_rows;       // of one head in lse
  bool block;         // results are fp32, and gradients are added to what is there
  float scale;        // 1 / sqrt(HS)
  TileOrder order;
  int counter;  // index into next_tiles
  // Of packed documents; read by the kernels' variants for them only.
  const std::int32_t* first_keys;    // [batch, tokens], see AttentionShape; or null
  int tokens;                        // T of the whole sequence
  int query_position, key_position;  // of the first of each in the whole sequence

  __host__ __device__ int group() const { return heads / kv_heads; }
  /// Rounded up to multiples of kRows.
  __host__ __device__ int padded_queries() const { return (queries + kRows - 1) / kRows * kRows; }
  __host__ __device__ int padded_keys() const { return (keys + kRows - 1) / kRows * kRows; }
  /// How many keys, from the first on, are of documents before that of query i (of the last, if i is beyond). They ascend with i.
  __device__ int hidden_keys(int sample, int i) const {
    const Count row = static_cast<Count>(sample) * tokens + query_position + min(max(i, 0), queries - 1);
    return max(0, min(first_keys[row] - key_position, keys));
  }
  /// Behind the last query that sees any of the keys before `end`, as far as documents go.
  __device__ int end_of_queries(int sample, int end) const {
    int low = 0, high = queries;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (hidden_keys(sample, middle) >= end) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }
  __device__ int key_column(int kv_head, int head_size) const { return first_key + kv_head * head_size; }
  __device__ int value_column(int kv_head, int head_size) const { return first_key + (kv_heads + kv_head) * head_size; }
};

// ---- Handing out tiles. Launches take the counters in turn, so launches that run at the same time on several streams do not
// share one. A block is refused exactly once, so the refusal number gridDim.x is the last use of the counter: it is left at zero.
inline constexpr int kCounters = 512;
static __device__ unsigned next_tiles[kCounters];

/// The next tile's number, or -1.
__device__ inline int take_tile(const Problem& problem) {
  const unsigned tiles = problem.order.tiles();
  const unsigned taken = atomicAdd(&next_tiles[problem.counter], 1u);
  if (taken < tiles) return static_cast<int>(taken);
  if (taken == tiles + gridDim.x - 1) next_tiles[problem.counter] = 0;
  return -1;
}

// ---- The ring. Filled and emptied in the same order by both sides: each keeps its own position.
template <int STAGES>
struct RingPosition {
  int stage = 0;
  std::uint32_t parity = 0;  // of the phase that fills this stage; its emptying before was of the other parity

  __device__ void advance() {
    if (++stage == STAGES) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// Loads `ROWS` rows of one head, HS columns from `column` on, as column chunks (hopper.cuh). The barrier expects the bytes.
template <class T, int HS, int ROWS>
__device__ inline void load_rows(T* destination, const CUtensorMap* map, Barrier* barrier, int column, int row, int batch) {
#pragma unroll
  for (int chunk = 0; chunk < HS / 64; ++chunk) {
#pragma unroll
    for (int part = 0; part < ROWS / kRows; ++part) {
      load_box(destination + (chunk * ROWS + part * kRows) * 64, map, barrier, column + chunk * 64, row + part * kRows, batch);
    }
  }
}

/// Sets d to minus infinity where the column lies beyond `row` + the fragment's row; rows and columns count from the tile's
/// corner.
template <int N>
__device__ inline void mask_columns_after_row(float (&d)[N], int row) {
  const int lane = threadIdx.x % 32, own_row = row + threadIdx.x % 128 / 32 * 16 + lane / 4;
#pragma unroll
  for (int e = 0; e < N; ++e) {
    const int column = e / 4 * 8 + lane % 4 * 2 + e % 2;
    if (column > own_row + e / 2 % 2 * 8) d[e] = -INFINITY;
  }
}

/// The same from column `end` on.
template <int N>
__device__ inline void mask_columns_from(float (&d)[N], int end) {
  const int first = threadIdx.x % 4 * 2;
#pragma unroll
  for (int e = 0; e < N; ++e) {
    if (e / 4 * 8 + first + e % 2 >= end) d[e] = -INFINITY;
  }
}

/// The same for columns before first[0], first[1] in the thread's two rows.
template <int N>
__device__ inline void mask_columns_before(float (&d)[N], const int (&first)[2]) {
  const int own_column = threadIdx.x % 4 * 2;
#pragma unroll
  for (int e = 0; e < N; ++e) {
    if (e / 4 * 8 + own_column + e % 2 < first[e / 2 % 2]) d[e] = -INFINITY;
  }
}

/// The same for a transposed tile: rows before first_row(column).
template <int N, class FirstRow>
__device__ inline void mask_rows_before(float (&d)[N], const FirstRow& first_row) {
  const int lane = threadIdx.x % 32, own_row = threadIdx.x % 128 / 32 * 16 + lane / 4;
#pragma unroll
  for (int e = 0; e < N; e += 4) {
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const int first = first_row(e * 2 + lane % 4 * 2 + side);
      if (own_row < first) d[e + side] = -INFINITY;
      if (own_row + 8 < first) d[e + 2 + side] = -INFINITY;
    }
  }
}

/// Where documents begin, as the 64 queries of a warpgroup from `row` on see it: of the thread's two rows the first keys, and of
/// all rows the latest. Without documents it knows nothing and costs nothing.
template <bool DOCUMENTS>
struct OwnDocuments {
  __device__ OwnDocuments(const Problem&, int, int) {}
  template <int N>
  __device__ void mask(float (&)[N], int) const {}
};

template <>
struct OwnDocuments<true> {
  int first[2], latest;

  __device__ OwnDocuments(const Problem& problem, int sample, int row) : latest(problem.hidden_keys(sample, row + kRows - 1)) {
    const int own_row = row + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
    first[0] = problem.hidden_keys(sample, own_row);
    first[1] = problem.hidden_keys(sample, own_row + 8);
  }
  /// Of a tile of scores, whose first column is `key`.
  template <int N>
  __device__ void mask(float (&scores)[N], int key) const {
    if (latest <= key) return;
    const int columns[2] = {first[0] - key, first[1] - key};
    mask_columns_before(scores, columns);
  }
};

/// The same for a transposed tile on the diagonal: minus infinity where the row lies beyond the column.
template <int N>
__device__ inline void mask_rows_after_column(float (&d)[N]) {
  const int lane = threadIdx.x % 32, own_row = threadIdx.x % 128 / 32 * 16 + lane / 4;
#pragma unroll
  for (int e = 0; e < N; ++e) {
    const int column = e / 4 * 8 + lane % 4 * 2 + e % 2;
    if (own_row + e / 2 % 2 * 8 > column) d[e] = -INFINITY;
  }
}

/// Transposes a 4 x 4 matrix whose row i is held by lane i of each 4 lanes: afterwards x[j] is what lane j had in x[lane % 4].
__device__ inline void transpose_quad(std::uint32_t (&x)[4]) {
  const int lane = threadIdx.x % 4;
#pragma unroll
  for (int bit = 1; bit <= 2; bit *= 2) {
#pragma unroll
    for (int low = 0; low < 4; ++low) {
      if (low & bit) continue;
      const int high = low | bit;
      const bool upper = lane & bit;
      const std::uint32_t received = __shfl_xor_sync(0xFFFFFFFF, upper ? x[low] : x[high], bit);
      if (upper) {
        x[low] = received;
      } else {
        x[high] = received;
      }
    }
  }
}

/// Writes the 64 x HS fragment d, its two rows per thread times factor[0] and factor[1], to rows `row` ... of `destination` (row
/// `stride` elements apart); rows from `limit` on are left out. A quad of lanes exchanges its pairs so that each store has 16
/// bytes.
template <class T, int HS>
__device__ inline void store_rows(const float (&d)[HS / 2], const float (&factor)[2], T* destination, Count stride, int row,
                                  int limit) {
  const int lane = threadIdx.x % 32, first_row = row + threadIdx.x % 128 / 32 * 16 + lane / 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    T* const line = destination + (first_row + 8 * half) * stride;
#pragma unroll
    for (int part = 0; part < HS / 32; ++part) {
      std::uint32_t x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int e = 16 * part + 4 * i + 2 * half;
        x[i] = pack_pair(T{}, d[e] * factor[half], d[e + 1] * factor[half]);
      }
      transpose_quad(x);
      if (first_row + 8 * half < limit) {
        *reinterpret_cast<uint4*>(line + 32 * part + lane % 4 * 8) = make_uint4(x[0], x[1], x[2], x[3]);
      }
    }
  }
}

/// The same in fp32: a quad of lanes fills the 32 bytes of a sector. With `add` on top of what is there.
template <int HS>
__device__ inline void store_fp32_rows(const float (&d)[HS / 2], const float (&factor)[2], float* destination, Count stride,
                                       int row, int limit, bool add) {
  const int lane = threadIdx.x % 32, first_row = row + threadIdx.x % 128 / 32 * 16 + lane / 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (first_row + 8 * half >= limit) continue;
    float* const line = destination + (first_row + 8 * half) * stride + lane % 4 * 2;
#pragma unroll
    for (int part = 0; part < HS / 8; ++part) {
      const int e = 4 * part + 2 * half;
      auto* const pair = reinterpret_cast<float2*>(line + 8 * part);
      const float2 before = add ? *pair : float2{0.0f, 0.0f};
      *pair = float2{fmaf(d[e], factor[half], before.x), fmaf(d[e + 1], factor[half], before.y)};
    }
  }
}

/// A gradient's rows of one head: overwrites elements, or adds to the fp32 numbers of a block.
template <class T, int HS>
__device__ inline void store_gradient(const float (&d)[HS / 2], const float (&factor)[2], void* gradient, Count offset,
                                      bool block, Count stride, int row, int limit) {
  if (block) {
    store_fp32_rows<HS>(d, factor, static_cast<float*>(gradient) + offset, stride, row, limit, true);
  } else {
    store_rows<T, HS>(d, factor, static_cast<T*>(gradient) + offset, stride, row, limit);
  }
}

}  // namespace cohort::ops::cuda::hopper
