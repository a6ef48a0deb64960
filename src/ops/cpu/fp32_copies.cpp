#include "ops/cpu/fp32_copies.hpp"

#include "tensor/convert.hpp"

namespace cohort::ops {
namespace {

Arena& scratch() {
  // Never destroyed: Kokkos, whose memory it holds, ends before static objects do.
  static Arena& arena = *new Arena("fp32 copies");
  return arena;
}

}  // namespace

Fp32Copies::Fp32Copies() : scope_(scratch()) {}

// No conversion fails: out() made both tensors of one shape, on the host.
Fp32Copies::~Fp32Copies() {
  for (std::size_t i = 0; i < output_count_; ++i) convert(outputs_[i].narrow, outputs_[i].fp32);
}

Tensor Fp32Copies::in(const Tensor& tensor) {
  if (!is_narrow(tensor)) return tensor;
  const Tensor copy = scratch().take(tensor.shape());
  convert(copy, tensor);
  return copy;
}

Tensor Fp32Copies::out(const Tensor& tensor) {
  if (!is_narrow(tensor)) return tensor;
  COHORT_CHECK(tensor.on_host(), "fp32 copy of a tensor of shape {} on the device", tensor.shape().str());
  COHORT_CHECK(output_count_ < kMostOutputs, "an op with more than {} outputs", kMostOutputs);
  const Tensor copy = scratch().take(tensor.shape());
  outputs_[output_count_++] = {tensor, copy};
  return copy;
}

Tensor Fp32Copies::inout(const Tensor& tensor) {
  const Tensor copy = out(tensor);
  if (is_narrow(tensor)) convert(copy, tensor);
  return copy;
}

}  // namespace cohort::ops
