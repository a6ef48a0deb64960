// gemm by oneDNN, which is row-major and generates its kernels for the CPU at hand at run time: by its sgemm, which on the shapes
// of training (a few hundred wide) was measured to be up to 1.4 times as fast as OpenBLAS 0.3.21 on one core of an AMD Zen 3; and
// where that is slow by our own kernel.
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include "ops/cpu/gemm_checks.hpp"
#include "ops/cpu/gradient_product.hpp"
#include "ops/cpu/linear_product.hpp"
#include "ops/host_loop.hpp"

namespace cohort::ops {
namespace {

// From so many multiplications on, C += A^T B is left to gradient_product.hpp: gradients of weights, whose long rows of A and B
// lie far apart. For smaller ones sgemm was as fast or faster (docs/performance.md).
constexpr Count kLeastOfGradients = Count{1} << 29;

// The kernel that C += A^T B of these sizes is left to; null: the library does it.
cpu::TileKernel kernel_of_gradient(const MatrixView& c, Count terms) {
  const bool pays = c.rows * c.columns * terms >= kLeastOfGradients && cpu::enough_tiles(c, host_threads());
  return pays ? cpu::allowed_tile_kernel() : nullptr;
}

// The same of C = A op(B).
cpu::TileKernel kernel_of_linear(const MatrixView& c, Count terms, Transpose transpose_b) {
  return cpu::pays_as_linear_product(c, terms, transpose_b, host_threads()) ? cpu::allowed_tile_kernel() : nullptr;
}

}  // namespace

void gemm(const Exec&, const MatrixView& c, const MatrixView& a, Transpose transpose_a, const MatrixView& b,
          Transpose transpose_b, float alpha, float beta) {
  const auto [m, n, k] = gemm_sizes(c, a, transpose_a, b, transpose_b);
  if (m == 0 || n == 0) return;
  if (k == 0) return scale_matrix(c, beta);
  if (transpose_a == Transpose::yes && transpose_b == Transpose::no && alpha == 1.0f && beta == 1.0f) {
    if (const auto kernel = kernel_of_gradient(c, k)) return cpu::add_gradient_product(kernel, c, a, b);
  }
  if (transpose_a == Transpose::no && alpha == 1.0f && beta == 0.0f && fused_gemm(c, a, b, transpose_b)) return;
  const dnnl_status_t status = dnnl_sgemm(transpose_a == Transpose::yes ? 'T' : 'N', transpose_b == Transpose::yes ? 'T' : 'N', m,
                                          n, k, alpha, a.data, a.stride, b.data, b.stride, beta, c.data, c.stride);
  COHORT_CHECK(status == dnnl_success, "oneDNN sgemm of m={}, n={}, k={} returned status {}", m, n, k, static_cast<int>(status));
}

bool fused_gemm(const MatrixView& c, const MatrixView& a, const MatrixView& b, Transpose transpose_b, const MatrixView& residual,
                const float* bias) {
  const auto sizes = gemm_sizes(c, a, Transpose::no, b, transpose_b);
  COHORT_CHECK(residual.data == nullptr || (residual.rows == c.rows && residual.columns == c.columns),
               "a residual of [{}, {}] for a product of [{}, {}]", residual.rows, residual.columns, c.rows, c.columns);
  const auto kernel = kernel_of_linear(c, sizes.k, transpose_b);
  if (kernel == nullptr) return false;
  cpu::linear_product(kernel, c, a, b, transpose_b, residual, bias);
  return true;
}

// ONEDNN_MAX_CPU_ISA is for all products, so that one machine can show what another would do.
cpu::TileKernel cpu::allowed_tile_kernel() {
  static const bool allowed = (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
  return allowed ? tile_kernel() : nullptr;
}

std::string gemm_backend() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

void set_gemm_threads(int threads) { omp_set_num_threads(threads); }

}  // namespace cohort::ops
