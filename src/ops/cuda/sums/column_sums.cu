#include "ops/cuda/pointwise/pointwise.hpp"
#include "ops/cuda/sums/columns.cuh"

namespace cohort::ops::cuda {
namespace {

// Packs that a thread has on their way at one time.
constexpr int kAhead = 4;

template <class T, int kVec>
__global__ void __launch_bounds__(kTileThreads)
    sum_columns(float* sums, float* partials, const T* __restrict__ x, Count rows, Count columns, unsigned tiles) {
  const TilePosition at(tiles);
  const Count column = at.pack * kVec;
  const unsigned blocks_high = gridDim.x / tiles;
  const Count step = Count{blocks_high} * blockDim.y;
  float sum[kVec] = {};
  if (column < columns) {
    const auto read = [&](Pack<T, kVec>(&packs)[kAhead], Count row) {
      const T* from = x + row * columns + column;
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        packs[k] = row + k * step < rows ? load<T, kVec>(from + k * step * columns) : zeros<T, kVec>();
      }
    };
    Count row = at.block * blockDim.y + threadIdx.y;
    Pack<T, kVec> packs[kAhead];
    read(packs, row);
    // The next packs are on their way while these are added. (Asked for at the head of each turn instead, they would have one
    // load on its way at a time: the compiler moves each addition up to its load.)
    for (; row < rows; row += kAhead * step) {
      Pack<T, kVec> next[kAhead];
      read(next, row + kAhead * step);
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        float values[kVec];
        widen(values, packs[k]);
#pragma unroll
        for (int i = 0; i < kVec; ++i) sum[i] += values[i];
        packs[k] = next[k];
      }
    }
  }
  finish_column_sums(sum, at, sums, partials, columns, blocks_high == 1);
}

template <class T, int kVec>
void launch_column_sums(CUstream_st* stream, float* sums, const T* x, Count rows, Count columns, float* partials) {
  const ColumnTiles tiles = column_tiles(columns / kVec);
  const Count blocks = column_sum_blocks(sum_columns<T, kVec>, tiles, rows, columns);
  sum_columns<T, kVec><<<tiles.blocks(blocks), tiles.block, 0, stream>>>(sums, partials, x, rows, columns, tiles.tiles);
  if (blocks > 1) add_column_partials(stream, {{sums}}, partials, 1, blocks, columns);
}

// Block (x, q) adds 32 columns of quantity q: warp y adds the partial sums y, y + 32, ..., then one warp adds the 32 warps.
__global__ void __launch_bounds__(1024)
    add_partials(ColumnSums out, const float* __restrict__ partials, Count blocks, Count columns) {
  __shared__ float shared[32][32];
  float* const sums = out.sums[blockIdx.y];
  if (sums == nullptr) return;
  const Count column = Count{blockIdx.x} * 32 + threadIdx.x;
  const float* const first = partials + blockIdx.y * blocks * columns + column;
  float sum = 0.0f;
  if (column < columns) {
#pragma unroll 8
    for (Count b = threadIdx.y; b < blocks; b += 32) sum += first[b * columns];
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  float total = 0.0f;
#pragma unroll
  for (int y = 0; y < 32; ++y) total += shared[y][threadIdx.x];
  sums[column] += total;
}

}  // namespace

void add_column_partials(CUstream_st* stream, const ColumnSums& out, const float* partials, int quantities, Count blocks,
                         Count columns) {
  const dim3 grid(static_cast<unsigned>(divide_up(columns, 32)), static_cast<unsigned>(quantities));
  add_partials<<<grid, dim3(32, 32), 0, stream>>>(out, partials, blocks, columns);
}

Bytes column_sums_scratch_bytes(Count rows, Count columns) {
  const Count blocks = most_partial_rows(rows, columns);
  return blocks == 1 ? 0 : blocks * columns * Bytes{sizeof(float)};  // a block that is alone adds to the sums itself
}

void column_sums(CUstream_st* stream, DType dtype, float* sums, const void* x, Count rows, Count columns, void* scratch) {
  if (rows == 0 || columns == 0) return;
  for_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto launch = is_wide<T>(columns, x) ? launch_column_sums<T, kWide<T>> : launch_column_sums<T, 1>;
    launch(stream, sums, static_cast<const T*>(x), rows, columns, static_cast<float*>(scratch));
  });
}

}  // namespace cohort::ops::cuda
