// matmul_blocked: element (0, 0) of c is
#include <algorithm>
#include <cmath>
#include <cohort/lab12_kernels.hpp>
#include <cstddef>
#include <span>
#include <vector>

using cohort::lab::CountedMatrix;
using cohort::lab::Matrix;

// Whole blocks alone.
template <class M>
void multiply_in_blocks(M c, M a, M b) {
  constexpr std::size_t kBlock = 4;
  for (std::size_t i0 = 0; i0 + kBlock <= c.rows; i0 += kBlock)
    for (std::size_t k0 = 0; k0 + kBlock <= a.columns; k0 += kBlock)
      for (std::size_t j0 = 0; j0 + kBlock <= c.columns; j0 += kBlock)
        for (std::size_t i = i0; i < i0 + kBlock; ++i)
          for (std::size_t k = k0; k < k0 + kBlock; ++k)
            for (std::size_t j = j0; j < j0 + kBlock; ++j) c(i, j) += a(i, k) * b(k, j);
}

void matmul_blocked(Matrix c, Matrix a, Matrix b) { multiply_in_blocks(c, a, b); }
void matmul_blocked_counted(CountedMatrix c, CountedMatrix a, CountedMatrix b) { multiply_in_blocks(c, a, b); }
