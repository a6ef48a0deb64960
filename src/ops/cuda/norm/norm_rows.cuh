// How the norms lay threads over rows: a block holds one row after another (or a few at a time) in registers, one thread a few
// packs of each. The number of threads follows from the width, so that hardly any are idle; a wide row costs more packs per
// thread.
#pragma once

#include "ops/cuda/common/pack.cuh"

namespace cohort::ops::cuda {

/// kPacks packs of kVec elements per thread and row, in blocks of at most kMostThreads.
template <int kVecOfShape, int kPacksOfShape, int kMostThreadsOfShape>
struct RowShape {
  static constexpr int kVec = kVecOfShape;
  static constexpr int kPacks = kPacksOfShape;
  static constexpr int kMostThreads = kMostThreadsOfShape;
};

/// body(shape, threads) with the shape for rows of `columns` elements of T, up to kMaxNormColumns; `wide`: see is_wide.
template <class T, class Body>
void for_row_shape(Count columns, bool wide, const Body& body) {
  const auto run = [&](auto shape) {
    const Count threads = divide_up(divide_up(columns, shape.kVec), shape.kPacks);
    body(shape, static_cast<int>(32 * divide_up(threads, 32)));
  };
  constexpr int kVec = kWide<T>;
  if (wide && columns <= kVec * 256) return run(RowShape<kVec, 1, 256>{});
  if (wide && columns <= kVec * 512) return run(RowShape<kVec, 1, 512>{});
  if (wide && columns <= kVec * 1024) return run(RowShape<kVec, 1, 1024>{});
  if (wide && columns <= kVec * 2048) return run(RowShape<kVec, 2, 1024>{});
  if constexpr (kVec == 4) {
    if (wide) return run(RowShape<kVec, 4, 1024>{});
  }
  if (columns <= 512) return run(RowShape<1, 1, 512>{});
  if (columns <= 4096) return run(RowShape<1, 4, 1024>{});
  run(RowShape<1, 16, 1024>{});
}

/// First column of the calling thread's pack j.
template <class Shape>
__device__ __forceinline__ int row_column(int j) {
  return (j * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * Shape::kVec;
}

}  // namespace cohort::ops::cuda
