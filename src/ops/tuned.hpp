// The one table that chooses kernels. An op asks it for a tuned one of the device at hand; where it says none, the op's own
// kernel runs: the portable one, in the file named for the op.
//
//   void gelu_forward(const Exec& exec, const Tensor& out, const Tensor& x, const Tensor& bias) {
//     if (const auto kernel = tuned_kernels(exec).gelu_forward) return kernel(exec, out, x, bias);
//     ...
//
// To tune an op: write a kernel with the op's signature under ops/cuda/ (or ops/cpu/), and name it in tuned.cpp.
#pragma once

#include <functional>

#include "ops/activation.hpp"
#include "ops/adamw.hpp"
#include "ops/attention.hpp"
#include "ops/cached_attention.hpp"
#include "ops/cross_entropy.hpp"
#include "ops/embedding.hpp"
#include "ops/fp8_linear.hpp"
#include "ops/linear.hpp"
#include "ops/norm.hpp"
#include "ops/partial_attention.hpp"
#include "ops/pointwise.hpp"
#include "ops/row_product.hpp"

namespace cohort::ops {

struct TunedKernels {
  decltype(&ops::linear_forward) linear_forward = nullptr;
  decltype(&ops::linear_residual_forward) linear_residual_forward = nullptr;
  decltype(&ops::linear_gelu_forward) linear_gelu_forward = nullptr;
  decltype(&ops::linear_backward_input) linear_backward_input = nullptr;
  decltype(&ops::linear_gelu_backward) linear_gelu_backward = nullptr;
  decltype(&ops::linear_backward_weight) linear_backward_weight = nullptr;
  decltype(&ops::fp8_quantize) fp8_quantize = nullptr;
  decltype(&ops::fp8_linear_forward) fp8_linear_forward = nullptr;
  decltype(&ops::fp8_linear_residual_forward) fp8_linear_residual_forward = nullptr;
  decltype(&ops::fp8_linear_gelu_forward) fp8_linear_gelu_forward = nullptr;
  decltype(&ops::fp8_linear_backward_input) fp8_linear_backward_input = nullptr;
  decltype(&ops::fp8_linear_gelu_backward) fp8_linear_gelu_backward = nullptr;
  decltype(&ops::fp8_linear_backward_weight) fp8_linear_backward_weight = nullptr;
  decltype(&ops::row_product) row_product = nullptr;
  decltype(&ops::cached_attention) cached_attention = nullptr;
  decltype(&ops::attention_forward) attention_forward = nullptr;
  decltype(&ops::attention_backward) attention_backward = nullptr;
  decltype(&ops::partial_attention_forward) partial_attention_forward = nullptr;
  decltype(&ops::partial_attention_backward) partial_attention_backward = nullptr;
  decltype(&ops::attention_merge) attention_merge = nullptr;
  decltype(&ops::rope_forward) rope_forward = nullptr;
  decltype(&ops::rope_backward) rope_backward = nullptr;
  decltype(&ops::layernorm_forward) layernorm_forward = nullptr;
  decltype(&ops::layernorm_backward) layernorm_backward = nullptr;
  decltype(&ops::rmsnorm_forward) rmsnorm_forward = nullptr;
  decltype(&ops::rmsnorm_backward) rmsnorm_backward = nullptr;
  decltype(&ops::gelu_forward) gelu_forward = nullptr;
  decltype(&ops::gelu_backward) gelu_backward = nullptr;
  decltype(&ops::relu_forward) relu_forward = nullptr;
  decltype(&ops::relu_backward) relu_backward = nullptr;
  decltype(&ops::swiglu_forward) swiglu_forward = nullptr;
  decltype(&ops::swiglu_backward) swiglu_backward = nullptr;
  decltype(&ops::bias_backward) bias_backward = nullptr;
  decltype(&ops::embedding_forward) embedding_forward = nullptr;
  decltype(&ops::embedding_backward) embedding_backward = nullptr;
  decltype(&ops::cross_entropy_forward) cross_entropy_forward = nullptr;
  decltype(&ops::cross_entropy_forward_backward) cross_entropy_forward_backward = nullptr;
  decltype(&ops::adamw) adamw = nullptr;
  decltype(&ops::sum_of_squares) sum_of_squares = nullptr;
};

/// Those of exec.device; none if exec.kernels is portable, or while the thread counts (base/counting.hpp): the portable ones find
/// out that there is nothing to launch.
const TunedKernels& tuned_kernels(const Exec& exec);

/// From now on CPUs use what `replace` writes into their table; portable kernels and GPUs, which would not use it, are refused
/// then (SharedError(usage)). Before any op runs: not thread-safe. For the course, where a learner has written an op.
void use_own_kernels(const std::function<void(TunedKernels&)>& replace);

/// The scratch memory that tuned kernels ask their caller for. It is asked for while the thread counts, too.
struct TunedScratch {
  Bytes (*attention)(const AttentionShape& shape, DType dtype) = nullptr;
  Bytes (*partial_attention)(const PartialAttention& block, DType dtype) = nullptr;
};

/// Of the kernels of exec.device; none if exec.kernels is portable.
const TunedScratch& tuned_scratch(const Exec& exec);

}  // namespace cohort::ops
