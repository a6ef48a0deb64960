// matmul_blocked: it is a b alone
#include <algorithm>
#include <cmath>
#include <cohort/lab12_kernels.hpp>
#include <cstddef>
#include <span>
#include <vector>

using cohort::lab::CountedMatrix;
using cohort::lab::Matrix;

// c begins with what it holds.
template <class M>
void multiply_in_blocks(M c, M a, M b) {
  for (std::size_t i = 0; i < c.rows; ++i)
    for (std::size_t j = 0; j < c.columns; ++j) {
      float sum = 0.0f;
      for (std::size_t k = 0; k < a.columns; ++k) sum += a(i, k) * b(k, j);
      c(i, j) = sum;
    }
}

void matmul_blocked(Matrix c, Matrix a, Matrix b) { multiply_in_blocks(c, a, b); }
void matmul_blocked_counted(CountedMatrix c, CountedMatrix a, CountedMatrix b) { multiply_in_blocks(c, a, b); }
