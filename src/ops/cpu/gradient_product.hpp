// Gradients of weights on a CPU: C += A^T B with many terms, which lie in both matrices from row to row. The library's products
// are slowest there (docs/performance.md).
#pragma once

#include "ops/cpu/tile_kernel.hpp"
#include "ops/gemm.hpp"

namespace cohort::ops::cpu {

/// c [m, n] += a^T b, with a [k, m] and b [k, n], tile by tile with `kernel` (tile_kernel(), or one of a test). c overlaps
/// neither a nor b, and the sizes fit: gemm checks them. The bits depend neither on the number of threads nor on the sizes of
/// caches. Each thread keeps up to 1.8 MB of copies.
void add_gradient_product(TileKernel kernel, const MatrixView& c, const MatrixView& a, const MatrixView& b);

/// Whether c has so many tiles that each thread has a few. With fewer the copies cost too much, of which each thread makes all of
/// one matrix.
bool enough_tiles(const MatrixView& c, int threads);

}  // namespace cohort::ops::cpu
