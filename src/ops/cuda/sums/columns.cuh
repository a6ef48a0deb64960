// Blocks of threads as tiles of a matrix [R, N]: the x threads of a block hold neighbouring packs of one row, the y threads
// neighbouring rows. A thread stays in its columns, so that it can keep their bias, or their sums, in registers. Tiles that lie
// side by side follow each other in the launch: what runs at one time reads whole rows.
#pragma once

#include "ops/cuda/common/pack.cuh"
#include "ops/cuda/sums/column_partials.hpp"

namespace cohort::ops::cuda {

inline constexpr int kTileThreads = 256;

struct ColumnTiles {
  dim3 block;
  unsigned tiles;  // side by side, they cover a row

  unsigned blocks(Count row_blocks) const { return static_cast<unsigned>(tiles * row_blocks); }
};

/// Tiles for rows of `packs` packs. A warp covers 32 packs of one row (512 bytes), or several rows where those are narrower.
inline ColumnTiles column_tiles(Count packs) {
  unsigned lanes = 1;
  while (lanes < 32 && lanes < packs) lanes *= 2;
  return {dim3(lanes, kTileThreads / lanes), static_cast<unsigned>(divide_up(packs, lanes))};
}

/// Where the calling thread is.
struct TilePosition {
  int tile;     // of those side by side
  Count block;  // of those below each other
  Count pack;   // of the row

  __device__ explicit TilePosition(unsigned tiles)
      : tile(static_cast<int>(blockIdx.x % tiles)), block(blockIdx.x / tiles), pack(Count{tile} * blockDim.x + threadIdx.x) {}
};

/// Adds up the sums that the y threads of a block hold for their shared columns, from the first y to the last. The result goes to
/// row `at.block` of partials [blocks, columns], or, if the matrix is one block high, is added to `sums` at once.
template <int kVec>
__device__ void finish_column_sums(const float (&sum)[kVec], const TilePosition& at, float* sums, float* partials, Count columns,
                                   bool one_block_high) {
  __shared__ float shared[kTileThreads * kVec];
  const int width = static_cast<int>(blockDim.x) * kVec;
#pragma unroll
  for (int i = 0; i < kVec; ++i) shared[threadIdx.y * width + threadIdx.x * kVec + i] = sum[i];
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x); c < width; c += kTileThreads) {
    const Count column = Count{at.tile} * width + c;
    if (column >= columns) break;
    float total = 0.0f;
    for (int y = 0; y < static_cast<int>(blockDim.y); ++y) total += shared[y * width + c];
    if (one_block_high) {
      sums[column] += total;
    } else {
      partials[at.block * columns + column] = total;
    }
  }
}

/// How many blocks high the launch of a kernel that sums columns should be.
template <class Kernel>
Count column_sum_blocks(Kernel* kernel, const ColumnTiles& tiles, Count rows, Count columns) {
  const Count fitting = resident_blocks(kernel, kTileThreads) / tiles.tiles;
  const Count useful = divide_up(rows, tiles.block.y);
  return std::clamp(std::min(fitting, useful), Count{1}, most_partial_rows(rows, columns));
}

}  // namespace cohort::ops::cuda
