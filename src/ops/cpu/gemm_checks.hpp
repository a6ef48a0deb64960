// What both backends of gemm check first, and the products that need no library.
#pragma once

#include "ops/gemm.hpp"

namespace cohort::ops {

struct GemmSizes {
  Count m, n, k;
};

/// The sizes of C = op(A) op(B), after checking that they fit each other.
inline GemmSizes gemm_sizes(const MatrixView& c, const MatrixView& a, Transpose transpose_a, const MatrixView& b,
                            Transpose transpose_b) {
  const bool ta = transpose_a == Transpose::yes;
  const bool tb = transpose_b == Transpose::yes;
  const GemmSizes s{ta ? a.columns : a.rows, tb ? b.rows : b.columns, ta ? a.rows : a.columns};
  const Count k_of_b = tb ? b.columns : b.rows;
  COHORT_CHECK(c.rows == s.m && c.columns == s.n && k_of_b == s.k, "gemm: C [{}, {}] = op(A) [{}, {}] op(B) [{}, {}]", c.rows,
               c.columns, s.m, s.k, k_of_b, s.n);
  return s;
}

/// C = beta C, for k = 0.
inline void scale_matrix(const MatrixView& c, float beta) {
  for (Count i = 0; i < c.rows; ++i) {
    for (Count j = 0; j < c.columns; ++j) {
      float& element = c.data[i * c.stride + j];
      element = beta == 0.0f ? 0.0f : beta * element;
    }
  }
}

}  // namespace cohort::ops
