// Matrix products on the GPU, by cuBLASLt, with what follows the product (bias, GELU, their gradients) done in its last stage
// while the values are still in registers. Works on plain pointers into device memory; ops/gemm.hpp is the rung above.
//
// Types: a and b are both bf16 or both fp16 with c of the same type or fp32, or all three are fp32. Products are summed in fp32
// always, also where cuBLASLt splits k over blocks: algorithms that would add partial sums in 16 bits are excluded.
//
// Or a and b are in 8 bits (ops/fp8.hpp; not both e5m2), and c, aux and bias bf16, or c fp32. cuBLASLt does these (documentation
// of cublasLtMatmul, "FP8 kernels") where both lie along k, a as it is and b transposed, with strides of a multiple of 16 and
// addresses aligned to 16 bytes.
//
// Same call, same bits. By default the algorithm of a call is the first that cuBLASLt's heuristic names for its shape, types and
// alignment, which NVIDIA says depends on nothing else (cuBLAS documentation, "Results Reproducibility": equal bits at every run
// of one toolkit version on one architecture with one number of multiprocessors). With tuning on, a call's first use times
// several algorithms and keeps the quickest. Two algorithms need not agree in the last bit, even if neither splits k over blocks:
// they may split it over the warps of a block, and tensor cores add a chunk of products and the accumulator in one step of
// unspecified internal order, with chunks that differ between instructions. Since the clock decides, two runs may choose
// differently. So tuning is off unless asked for, and its choices can be saved and loaded: runs with one table are equal bit for
// bit.
//
// Everything here is used by one host thread and puts its work on gpu::compute_stream(), with scratch from gpu::workspace().
#pragma once

#include <filesystem>
#include <string>

#include "base/dtype.hpp"
#include "base/units.hpp"
#include "ops/fp8.hpp"

namespace cohort::ops::cuda {

/// A row-major matrix in device memory: element (i, j) is data[i * stride + j].
struct Matrix {
  void* data = nullptr;
  DType dtype = DType::f32;
  Count rows = 0;
  Count columns = 0;
  Count stride = 0;  // elements from one row to the next, >= columns
  // Of the codes of a matrix in 8 bits (dtype u8): what numbers they stand for, and what those are multiplied by.
  Fp8 format = Fp8::e4m3;
  const float* scale = nullptr;  // [1] in device memory
};

enum class Epilogue {
  none,           // c = S, where S = alpha op(a) op(b) + beta r, and r = residual, or c itself
  bias,           // c = S + bias
  gelu_aux_bias,  // aux = S + bias, c = gelu(aux); the tanh form, as in ops/activation.hpp
  dgelu,          // c = gelu'(aux) * S; aux is read
  bias_gradient  // c = S, and bias_gradient[i] += sum over l of op(a)(i, l): the bias gradient, beside the weight gradient dY^T X
};

struct GemmCall {
  Matrix c;  // [m, n]
  Matrix a;  // op(a) is [m, k]
  bool transpose_a = false;
  Matrix b;  // op(b) is [k, n]
  bool transpose_b = false;
  float alpha = 1.0f;
  float beta = 0.0f;  // 0: neither c nor residual is read
  Epilogue epilogue = Epilogue::none;
  const void* bias = nullptr;  // [n], of c's type
  void* aux = nullptr;         // [m, n], of c's type
  Count aux_stride = 0;
  float* bias_gradient = nullptr;  // [m], accumulated into
  Matrix residual = {};            // [m, n], of c's type; without data: c
  // 8 bits: tensor cores keep their sums, of fewer bits than fp32, to the end; else they are added to fp32 ones every few terms.
  bool fast_sums = false;
};

/// Does the call. c (and aux, where it is an output) must not overlap any input, except that the residual may be c. k = 0 is a
/// product of zeros; an empty c means that nothing is done. Moves about (mk + kn) size(a) + mn size(c) (1 + [beta != 0] + [aux])
/// bytes for 2 m n k operations. `allow_tf32`: fp32 operands may be rounded to 10 bits of mantissa, for tensor cores.
///
/// Where cuBLASLt has no algorithm with the epilogue (odd sizes, aux_stride not a multiple of 8, types that it does not fuse;
/// GELU in fp32 is left to our own, exacter kernels), the product and the epilogue are done one after the other, by the kernels
/// of pointwise.hpp; values are then rounded to c's type in between. gemm_report() says where that happens. A call that was made
/// before costs the host a few microseconds.
void gemm(const GemmCall& call, bool allow_tf32);

/// "cuBLASLt 13.0.2".
std::string gemm_library();

/// Tuning at the first use of each call from now on; see above. Needs device memory of the size of c for calls with beta != 0
/// that have no residual; a call for which there is none is left as it was. Not while a stream is being captured.
void set_gemm_tuning(bool on);

/// Writes the choices made by tuning or load_gemm_tuning() into a JSON file, one section for each card and version of cuBLASLt;
/// sections of others that the file has already are kept. One process at a time.
void save_gemm_tuning(const std::filesystem::path& path);

/// Reads the section of this card and cuBLASLt: the calls in it, if they have not been made yet, take their algorithms from
/// there. Returns how many there are. Throws Error(io) if the file cannot be read, Error(config) if it is not such a table.
Count load_gemm_tuning(const std::filesystem::path& path);

/// A table of the calls made so far: what was chosen, and where it was timed, the time beside that of the heuristic's first
/// choice.
std::string gemm_report();

/// Forgets what was chosen so far, loaded tables included, and turns tuning off; the next call of each kind starts over.
void reset_gemm();

}  // namespace cohort::ops::cuda
