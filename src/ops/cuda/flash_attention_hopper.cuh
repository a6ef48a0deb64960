// What the Hopper attention kernels share: which tile a block works on next, the ring of buffers between the thread that loads
// and the warpgroups that compute, tensor maps over the packed activations, and writing a result tile.
//
// Shape of all three kernels. One block per multiprocessor stays for the whole launch and takes tiles from a counter, heaviest
// first. Its last warpgroup loads: one thread of it fills the buffers by TMA. The other warpgroups compute, each on 64 rows of
// its own ("resident") against tiles ("streamed") that all of them read. They meet only at the buffers' barriers, so while one is
// at its exponentials another has the tensor cores.
#pragma once

#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "base/units.hpp"
#include "ops/attention_shape.hpp"
#include "ops/cuda/hopper.cuh"

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

/// The problem as the kernels see it.
struct Problem {
  int tokens;    // T
  int padded;    // T rounded up to a multiple of kRows
  int heads;     // NH
  int kv_heads;  // NKV
  float scale;   // 1 / sqrt(HS)
  TileOrder order;
  int counter;  // index into next_tiles

  __host__ __device__ int group() const { return heads / kv_heads; }
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

static inline int claim_counter() {
  static std::atomic<unsigned> launches{0};
  return static_cast<int>(launches++ % kCounters);
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

// ---- Host side.

/// A tensor map over the activation [batch, tokens, width] of 16-bit elements that loads boxes of kRows x 64. Rows of one sample
/// never run into the next: beyond `tokens` the box is zeros. Throws if the driver has no tensor maps.
inline CUtensorMap activation_map(const void* data, CUtensorMapDataType type, Count batch, Count tokens, Count width) {
  static const auto encode = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
    if (entry == nullptr) throw std::runtime_error("the CUDA driver has no cuTensorMapEncodeTiled, which Hopper attention needs");
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(entry);
  }();
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(width), static_cast<cuuint64_t>(tokens), static_cast<cuuint64_t>(batch)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(2 * width), static_cast<cuuint64_t>(2 * width * tokens)};
  const cuuint32_t box[] = {64, kRows, 1}, steps[] = {1, 1, 1};
  CUtensorMap map;
  const CUresult result =
      encode(&map, type, 3, const_cast<void*>(data), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) throw std::runtime_error("cuTensorMapEncodeTiled refused an activation of the Hopper attention");
  return map;
}

template <class T>
inline constexpr CUtensorMapDataType kTensorMapType = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
template <>
inline constexpr CUtensorMapDataType kTensorMapType<__half> = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;

/// `heads` is the number of heads over all samples that own tiles of `tile_rows` rows, `head_bytes` what one of them streams.
inline Problem make_problem(const AttentionShape& shape, Count heads, int tile_rows, Bytes head_bytes) {
  constexpr Bytes kSectionBytes = 16 * kMiB;  // well inside the L2 cache (50 MB), beside what else passes through it
  const int tokens = static_cast<int>(shape.tokens), padded = (tokens + kRows - 1) / kRows * kRows;
  const int section = static_cast<int>(std::clamp<Bytes>(kSectionBytes / head_bytes, 1, heads));
  const TileOrder order{static_cast<int>(heads), (padded + tile_rows - 1) / tile_rows, section};
  return {tokens,
          padded,
          static_cast<int>(shape.heads),
          static_cast<int>(shape.kv_heads),
          1.0f / sqrtf(static_cast<float>(shape.head_size)),
          order,
          claim_counter()};
}

inline int persistent_blocks(const TileOrder& order) {
  int device = 0, multiprocessors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  return std::min(multiprocessors, order.tiles());
}

}  // namespace cohort::ops::cuda::hopper
