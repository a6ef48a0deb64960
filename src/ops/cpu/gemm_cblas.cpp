// gemm by CBLAS: OpenBLAS or any other library with that interface.
#include <cblas.h>

#include <limits>

#include "ops/cpu/gemm_checks.hpp"
#include "ops/cpu/tile_kernel.hpp"

namespace cohort::ops {

void gemm(const Exec&, const MatrixView& c, const MatrixView& a, Transpose transpose_a, const MatrixView& b,
          Transpose transpose_b, float alpha, float beta) {
  const auto [m, n, k] = gemm_sizes(c, a, transpose_a, b, transpose_b);
  if (m == 0 || n == 0) return;
  if (k == 0) return scale_matrix(c, beta);
  for (Count size : {m, n, k, a.stride, b.stride, c.stride}) {
    COHORT_CHECK(size <= std::numeric_limits<int>::max(), "gemm: CBLAS supports sizes up to 2^31 - 1, not {}", size);
  }
  cblas_sgemm(CblasRowMajor, transpose_a == Transpose::yes ? CblasTrans : CblasNoTrans,
              transpose_b == Transpose::yes ? CblasTrans : CblasNoTrans, static_cast<int>(m), static_cast<int>(n),
              static_cast<int>(k), alpha, a.data, static_cast<int>(a.stride), b.data, static_cast<int>(b.stride), beta, c.data,
              static_cast<int>(c.stride));
}

bool fused_gemm(const MatrixView&, const MatrixView&, const MatrixView&, Transpose, const MatrixView&, const float*) {
  return false;
}

cpu::TileKernel cpu::allowed_tile_kernel() { return nullptr; }

#ifdef OPENBLAS_VERSION
std::string gemm_backend() { return fmt::format("CBLAS ({})", openblas_get_config()); }
void set_gemm_threads(int threads) { openblas_set_num_threads(threads); }
#else
std::string gemm_backend() { return "CBLAS"; }
void set_gemm_threads(int threads) {
  if (threads > 1)
    fail(ExitCode::config,
         "device.threads = {}: this CBLAS cannot set its number of threads; use 1, or build with OpenBLAS or oneDNN", threads);
}
#endif

}  // namespace cohort::ops
