// The matrix product, as a triple loop.
#pragma once

#include "ops/reference/array.hpp"

namespace cohort::ops::reference {

/// C [m, n] = op(A) op(B), with c_ij = sum over l of op(A)_il op(B)_lj. A is stored as [m, k], or as [k, m] if it is to be
/// transposed; B as [k, n], or as [n, k] if it is to be transposed.
/// Its gradients are products too: dA = dC B^T and dB = A^T dC.
inline Array matmul(Input a, bool transpose_a, Input b, bool transpose_b, Count m, Count n, Count k) {
  Array c(m * n, 0.0);
  for (Count i = 0; i < m; ++i) {
    for (Count j = 0; j < n; ++j) {
      for (Count l = 0; l < k; ++l) {
        const double a_il = transpose_a ? a[l * m + i] : a[i * k + l];
        const double b_lj = transpose_b ? b[j * k + l] : b[l * n + j];
        c[i * n + j] += a_il * b_lj;
      }
    }
  }
  return c;
}

}  // namespace cohort::ops::reference
