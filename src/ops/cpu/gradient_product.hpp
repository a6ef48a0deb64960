// Gradients of weights on a CPU: C += A^T B with many terms, which lie in both matrices from row to row. The library's products
// are slowest there (gemm_onednn.cpp).
#pragma once

#include "ops/gemm.hpp"

namespace cohort::ops::cpu {

/// c [m, n] += a^T b, with a [k, m] and b [k, n]. The bits do not depend on the number of threads. Each thread keeps 1.8 MB of
/// copies. False, and nothing is done, where this processor has no kernel for it (tile_kernel.hpp).
bool add_gradient_product(const MatrixView& c, const MatrixView& a, const MatrixView& b);

}  // namespace cohort::ops::cpu
