// matmul_blocked: what was summed before k = 32 is lost
#include <algorithm>
#include <cmath>
#include <cohort/lab12_kernels.hpp>
#include <cstddef>
#include <span>
#include <vector>

using cohort::lab::CountedMatrix;
using cohort::lab::Matrix;

// Each block of k writes over the sum of the blocks before.
template <class M>
void multiply_in_blocks(M c, M a, M b) {
  constexpr std::size_t kBlock = 32;
  for (std::size_t k0 = 0; k0 < a.columns; k0 += kBlock)
    for (std::size_t i = 0; i < c.rows; ++i)
      for (std::size_t j = 0; j < c.columns; ++j) {
        float sum = k0 == 0 ? c(i, j) : 0.0f;
        for (std::size_t k = k0; k < std::min(k0 + kBlock, a.columns); ++k) sum += a(i, k) * b(k, j);
        c(i, j) = sum;
      }
}

void matmul_blocked(Matrix c, Matrix a, Matrix b) { multiply_in_blocks(c, a, b); }
void matmul_blocked_counted(CountedMatrix c, CountedMatrix a, CountedMatrix b) { multiply_in_blocks(c, a, b); }
