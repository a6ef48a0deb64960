// One kind of matrix product for cuBLASLt: everything about a call but its addresses and scalars, the descriptors made of it, and
// the algorithms that can do it. gemm_cublaslt.cpp keeps one plan for each kind of call.
//
// cuBLASLt is column-major, we are row-major. A row-major matrix [r, s] is, byte for byte, the column-major [s, r] that is its
// transpose, so C = op(A) op(B) is asked for as C^T = op(B)^T op(A)^T: our b is its A, our a its B, and m and n change places.
// Our n runs along the rows of its result, which is where its BIAS epilogue wants the bias, and its BGRADB sums our op(a) over k.
#pragma once

#include <cublasLt.h>

#include <string>
#include <vector>

#include "ops/cuda/gemm/gemm.hpp"

namespace cohort::ops::cuda {

/// Scratch that the heuristic may count on: what NVIDIA recommends for Hopper (cuBLAS documentation, cublasSetWorkspace).
inline constexpr Bytes kHeuristicWorkspace = 32 * kMiB;
/// Tuning also looks at algorithms that need more. The rest of gpu::workspace() is for the sums of the BGRADB epilogue.
inline constexpr Bytes kTuningWorkspace = 96 * kMiB;

/// Equal keys can share a plan. Alignments are capped at 16 bytes, all that any algorithm needs, so that the choice does not
/// depend on where the allocator happened to put a matrix.
struct ProductKey {
  Count m = 0, n = 0, k = 0;
  Count a_stride = 0, b_stride = 0, c_stride = 0, residual_stride = 0, aux_stride = 0;
  DType input = DType::f32, output = DType::f32;
  bool transpose_a = false, transpose_b = false, tf32 = false, reads_c = false;
  Fp8 a_format = Fp8::e4m3, b_format = Fp8::e4m3;  // of an input of u8
  bool fast_sums = false;                          // likewise
  Epilogue epilogue = Epilogue::none;
  int a_alignment = 16, b_alignment = 16, c_alignment = 16, residual_alignment = 16, bias_alignment = 16, aux_alignment = 16;

  bool operator==(const ProductKey&) const = default;
};

struct ProductKeyHash {
  std::size_t operator()(const ProductKey& key) const;
};

/// "m65536 n3072 k768 bf16 A768 B768t C3072 gelu_aux_bias X3072": all that tells the key apart, on one line. Alignments are given
/// where one is below 16.
std::string text_of(const ProductKey& key);

/// The addresses and scalars of one call. `bias` is where the epilogue reads the bias or writes the sums of op(a).
struct Operands {
  const void* a;
  const void* b;
  const void* residual;
  void* c;
  void* bias;
  void* aux;
  float alpha;
  float beta;
  const float* a_scale = nullptr;  // of an input of u8
  const float* b_scale = nullptr;
};

class Plan {
 public:
  explicit Plan(const ProductKey& key);

  /// Algorithms for it, best first as the heuristic sees it; empty if cuBLASLt cannot do it.
  std::vector<cublasLtMatmulAlgo_t> algorithms(int count, Bytes workspace_bytes);
  /// True if cuBLASLt takes `algorithm`, which may come from a file, for this plan within kTuningWorkspace.
  bool accepts(const cublasLtMatmulAlgo_t& algorithm);
  /// Puts the product on the compute stream.
  cublasStatus_t launch(const Operands& operands, const cublasLtMatmulAlgo_t& algorithm);

  const ProductKey& key() const { return key_; }

 private:
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value);
  void set_pointers(void* bias, void* aux, const float* a_scale, const float* b_scale);

  ProductKey key_;
  // The opaque types are values, made in place: they own nothing that would have to be released.
  cublasLtMatmulDescOpaque_t operation_;
  cublasLtMatrixLayoutOpaque_t a_, b_, c_, residual_;
};

/// "tile 21, 3 splits of k": the settings of an algorithm that matter for speed, in cuBLASLt's numbers.
std::string algorithm_text(const cublasLtMatmulAlgo_t& algorithm);

}  // namespace cohort::ops::cuda
