// Matrix products of a CPU in fp32, by a library that CMake picks: CBLAS (cpu/gemm_cblas.cpp) or oneDNN (cpu/gemm_onednn.cpp),
// beside which large products of linear layers have a kernel of our own (cpu/linear_product.hpp, cpu/gradient_product.hpp). The
// portable product is in ops/product.hpp, the plain triple loop in ops/reference/. All pass the same test.
#pragma once

#include <string>

#include "ops/exec.hpp"
#include "tensor/tensor.hpp"

namespace cohort::ops {

enum class Transpose { no, yes };

/// A row-major matrix inside a larger array: element (i, j) is data[i * stride + j].
struct MatrixView {
  float* data;
  Count rows;
  Count columns;
  Count stride;  // elements from one row to the next, >= columns
};

/// Any tensor as a matrix: the last dim is the columns, all others the rows.
MatrixView as_matrix(const Tensor& tensor);

/// C = alpha op(A) op(B) + beta C, with op(X) = X or its transpose. Shapes: op(A) [m, k], op(B) [k, n], C [m, n].
/// beta = 0 overwrites C without reading it. Moves about 4 (mk + kn + mn (1 + [beta != 0])) bytes for 2 m n k operations.
void gemm(const Exec& exec, const MatrixView& c, const MatrixView& a, Transpose transpose_a, const MatrixView& b,
          Transpose transpose_b, float alpha = 1.0f, float beta = 0.0f);

/// C = A op(B) + residual + bias, where this backend has a product that does it at once; false, and nothing is done, where not.
/// residual, of C's shape, may be C, and its data null, as may be bias [n]: none. C overlaps neither A nor B.
bool fused_gemm(const MatrixView& c, const MatrixView& a, const MatrixView& b, Transpose transpose_b,
                const MatrixView& residual = {}, const float* bias = nullptr);

/// "oneDNN 2.7.2" or "CBLAS (OpenBLAS 0.3.21 ...)".
std::string gemm_backend();
/// Threads that the calling thread's matrix products may use, and with oneDNN its loops as well (ops/host_loop.hpp).
void set_gemm_threads(int threads);

}  // namespace cohort::ops
