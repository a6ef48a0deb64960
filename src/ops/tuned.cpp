#include "ops/tuned.hpp"

#include "base/counting.hpp"
#include "base/error.hpp"
#include "ops/cpu/kernels.hpp"
#include "ops/cuda/ops.hpp"

namespace cohort::ops {
namespace {

TunedKernels cpu_kernels() {
  return {
      .linear_forward = cpu::linear_forward,
      .linear_residual_forward = cpu::linear_residual_forward,
      .linear_backward_input = cpu::linear_backward_input,
      .linear_backward_weight = cpu::linear_backward_weight,
      .row_product = cpu::row_product,
      .attention_forward = cpu::attention_forward,
      .attention_backward = cpu::attention_backward,
      .partial_attention_forward = cpu::partial_attention_forward,
      .partial_attention_backward = cpu::partial_attention_backward,
  };
}

TunedKernels& kernels_of_cpus() {
  static TunedKernels kernels = cpu_kernels();
  return kernels;
}

bool& has_own_kernels() {
  static bool replaced = false;
  return replaced;
}

TunedKernels cuda_kernels() {
  if constexpr (kCudaBuilt) {
    return {
        .linear_forward = cuda::linear_forward,
        .linear_residual_forward = cuda::linear_residual_forward,
        .linear_gelu_forward = cuda::linear_gelu_forward,
        .linear_backward_input = cuda::linear_backward_input,
        .linear_gelu_backward = cuda::linear_gelu_backward,
        .linear_backward_weight = cuda::linear_backward_weight,
        .fp8_quantize = cuda::fp8_quantize,
        .fp8_linear_forward = cuda::fp8_linear_forward,
        .fp8_linear_residual_forward = cuda::fp8_linear_residual_forward,
        .fp8_linear_gelu_forward = cuda::fp8_linear_gelu_forward,
        .fp8_linear_backward_input = cuda::fp8_linear_backward_input,
        .fp8_linear_gelu_backward = cuda::fp8_linear_gelu_backward,
        .fp8_linear_backward_weight = cuda::fp8_linear_backward_weight,
        .row_product = cuda::row_product,
        .cached_attention = cuda::cached_attention,
        .attention_forward = cuda::attention_forward,
        .attention_backward = cuda::attention_backward,
        .partial_attention_forward = cuda::partial_attention_forward,
        .partial_attention_backward = cuda::partial_attention_backward,
        .attention_merge = cuda::attention_merge,
        .rope_forward = cuda::rope_forward,
        .rope_backward = cuda::rope_backward,
        .layernorm_forward = cuda::layernorm_forward,
        .layernorm_backward = cuda::layernorm_backward,
        .rmsnorm_forward = cuda::rmsnorm_forward,
        .rmsnorm_backward = cuda::rmsnorm_backward,
        .gelu_forward = cuda::gelu_forward,
        .gelu_backward = cuda::gelu_backward,
        .relu_forward = cuda::relu_forward,
        .relu_backward = cuda::relu_backward,
        .swiglu_forward = cuda::swiglu_forward,
        .swiglu_backward = cuda::swiglu_backward,
        .bias_backward = cuda::bias_backward,
        .embedding_forward = cuda::embedding_forward,
        .embedding_backward = cuda::embedding_backward,
        .cross_entropy_forward = cuda::cross_entropy_forward,
        .cross_entropy_forward_backward = cuda::cross_entropy_forward_backward,
        .adamw = cuda::adamw,
        .sum_of_squares = cuda::sum_of_squares,
    };
  }
  return {};
}

TunedScratch cuda_scratch() {
  if constexpr (kCudaBuilt) return {cuda::attention_scratch_bytes, cuda::partial_attention_scratch_bytes};
  return {};
}

}  // namespace

const TunedKernels& tuned_kernels(const Exec& exec) {
  static const TunedKernels none, cuda = cuda_kernels();
  if (counting()) return none;
  if (has_own_kernels() && (exec.gpu() || exec.kernels == Kernels::portable))
    throw SharedError(ExitCode::usage, "kernels of your own are for device.kind = \"cpu\" and device.kernels = \"tuned\"");
  if (exec.kernels == Kernels::portable) return none;
  return exec.gpu() ? cuda : kernels_of_cpus();
}

void use_own_kernels(const std::function<void(TunedKernels&)>& replace) {
  has_own_kernels() = true;
  replace(kernels_of_cpus());
}

const TunedScratch& tuned_scratch(const Exec& exec) {
  static const TunedScratch none, cpu{cpu::attention_scratch_bytes, cpu::partial_attention_scratch_bytes}, cuda = cuda_scratch();
  if (exec.kernels == Kernels::portable) return none;
  return exec.gpu() ? cuda : cpu;
}

}  // namespace cohort::ops
