// The products of linear layers on a CPU, forward and back to their input: C = A B with many rows, which are read where they lie,
// and what is added to it while its sums are in registers.
#pragma once

#include "ops/cpu/tile_kernel.hpp"
#include "ops/gemm.hpp"

namespace cohort::ops::cpu {

/// c [m, n] = residual + a op(b) + bias, tile by tile with `kernel` (tile_kernel(), or one of a test), with a [m, k] and op(b)
/// [k, n]; residual.data, of c's shape, and bias [n] may be null, and residual be c. c overlaps neither a nor b, and the sizes
/// fit. An element's bits depend on its row of a and residual, and on b and bias: not on m, the number of threads or the sizes of
/// caches.
void linear_product(TileKernel kernel, const MatrixView& c, const MatrixView& a, const MatrixView& b, Transpose transpose_b,
                    const MatrixView& residual, const float* bias);

/// Whether it is faster than the library's, as measured (docs/performance.md): worth the copies that each thread makes of b or of
/// a part of it, and not where b is as it lies and c has fewer columns than there are terms.
bool pays_as_linear_product(const MatrixView& c, Count terms, Transpose transpose_b, int threads);

}  // namespace cohort::ops::cpu
