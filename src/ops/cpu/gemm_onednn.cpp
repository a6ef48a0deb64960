// gemm by oneDNN, which is row-major and generates its kernels for the CPU at hand at run time: by its sgemm, which on the shapes
// of training (a few hundred wide) was measured to be up to 1.4 times as fast as OpenBLAS 0.3.21 on one core of an AMD Zen 3; and
// where that is slow by its matmul.
#include <omp.h>

#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string_view>

#include "ops/cpu/gemm_checks.hpp"

namespace cohort::ops {
namespace {

// From so many multiplications on, A^T B is left to matmul. Gradients of weights are such: of long rows of A and B that lie far
// apart, sgemm made 98 to 130 GFLOP/s where it made 145 to 165 of the other products, and matmul 126 to 146 (oneDNN 2.6, one core
// with AVX-512; A [2048, 1536], B [2048, 384]). For smaller ones sgemm was as fast or faster.
constexpr Count kLeastOfMatmul = Count{1} << 29;

struct StridedProduct {
  Count m, n, k, a_stride, b_stride, c_stride;
  float beta;
  int threads;  // those that the library prepares for
  auto operator<=>(const StridedProduct&) const = default;
};

dnnl::engine& engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

struct Matmul {
  dnnl::memory::desc a, b, c;
  dnnl::matmul kernel;
};

// C = A^T B + beta C by matmul, if the library has a kernel of its own for that here and would not call its sgemm: with AVX-512,
// and without gaps between rows.
std::optional<Matmul> prepare_matmul(const StridedProduct& p) {
  constexpr auto f32 = dnnl::memory::data_type::f32;
  using Dims = dnnl::memory::dims;
  const dnnl::memory::desc a(Dims{p.m, p.k}, f32, Dims{1, p.a_stride});
  const dnnl::memory::desc b(Dims{p.k, p.n}, f32, Dims{p.b_stride, 1});
  const dnnl::memory::desc c(Dims{p.m, p.n}, f32, Dims{p.c_stride, 1});
  dnnl::primitive_attr attributes;
  if (p.beta != 0.0f) {
    dnnl::post_ops add;
    add.append_sum(p.beta);
    attributes.set_post_ops(add);
  }
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::matmul::primitive_desc description(engine(), a, b, c, attributes);
#else
  const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, c), attributes, engine());
#endif
  if (!std::string_view(description.impl_info_str()).starts_with("brg")) return std::nullopt;
  return Matmul{a, b, c, dnnl::matmul(description)};
}

// False: nothing was done.
bool transposed_product(const StridedProduct& p, float* c, const float* a, const float* b) {
  // To prepare one takes milliseconds. A map for each thread: ranks may be threads.
  thread_local std::map<StridedProduct, std::optional<Matmul>> prepared;
  auto found = prepared.find(p);
  if (found == prepared.end()) found = prepared.emplace(p, prepare_matmul(p)).first;
  if (!found->second) return false;
  const Matmul& matmul = *found->second;
  const auto memory = [](const dnnl::memory::desc& desc, const float* data) {
    return dnnl::memory(desc, engine(), const_cast<float*>(data));  // the library's memory knows no const
  };
  dnnl::stream stream(engine());
  matmul.kernel.execute(
      stream,
      {{DNNL_ARG_SRC, memory(matmul.a, a)}, {DNNL_ARG_WEIGHTS, memory(matmul.b, b)}, {DNNL_ARG_DST, memory(matmul.c, c)}});
  stream.wait();
  return true;
}

}  // namespace

void gemm(const Exec&, const MatrixView& c, const MatrixView& a, Transpose transpose_a, const MatrixView& b,
          Transpose transpose_b, float alpha, float beta) {
  const auto [m, n, k] = gemm_sizes(c, a, transpose_a, b, transpose_b);
  if (m == 0 || n == 0) return;
  if (k == 0) return scale_matrix(c, beta);
  if (m * n * k >= kLeastOfMatmul && transpose_a == Transpose::yes && transpose_b == Transpose::no && alpha == 1.0f &&
      transposed_product({m, n, k, a.stride, b.stride, c.stride, beta, omp_get_max_threads()}, c.data, a.data, b.data))
    return;
  const dnnl_status_t status = dnnl_sgemm(transpose_a == Transpose::yes ? 'T' : 'N', transpose_b == Transpose::yes ? 'T' : 'N', m,
                                          n, k, alpha, a.data, a.stride, b.data, b.stride, beta, c.data, c.stride);
  COHORT_CHECK(status == dnnl_success, "oneDNN sgemm of m={}, n={}, k={} returned status {}", m, n, k, static_cast<int>(status));
}

std::string gemm_backend() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

void set_gemm_threads(int threads) { omp_set_num_threads(threads); }

}  // namespace cohort::ops
