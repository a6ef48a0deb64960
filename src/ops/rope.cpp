#include <cmath>

#include "ops/attention.hpp"
#include "ops/cuda/ops.hpp"
#include "ops/fp32_copies.hpp"
#include "ops/parallel.hpp"

namespace cohort::ops {
namespace {

// Rotates by +angle (sign = 1) or -angle (sign = -1).
void rotate(const Exec& exec, const char* label, const AttentionShape& shape, const Tensor& qkv, const Tensor& cosines,
            const Tensor& sines, float sign) {
  const Count half = shape.head_size / 2;
  COHORT_CHECK(shape.head_size % 2 == 0 && cosines.elements() == shape.tokens * half && sines.elements() == shape.tokens * half,
               "rope: head size {}, tables {}", shape.head_size, cosines.shape().str());
  const Count rotated_heads = shape.heads + shape.kv_heads;  // queries and keys; values stay
  const Count row_elements = shape.packed_width();
  const Count tokens = shape.tokens;
  const Count head_size = shape.head_size;
  float* data = qkv.f32();
  const float* cosine = cosines.f32();
  const float* sine = sines.f32();
  for_rows(exec, label, shape.batch * shape.tokens, [=](Count r) {
    const float* c = cosine + r % tokens * half;
    const float* s = sine + r % tokens * half;
    for (Count h = 0; h < rotated_heads; ++h) {
      float* first = data + r * row_elements + h * head_size;
      float* second = first + half;
#pragma omp simd
      for (Count i = 0; i < half; ++i) {
        const float a = first[i];
        const float b = second[i];
        first[i] = a * c[i] - sign * b * s[i];
        second[i] = b * c[i] + sign * a * s[i];
      }
    }
  });
}

}  // namespace

void rope_forward(const Exec& exec, const AttentionShape& shape, const Tensor& qkv, const Tensor& cosines, const Tensor& sines) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::rope_forward(exec, shape, qkv, cosines, sines);
  }
  if (is_narrow(qkv)) {
    Fp32Copies fp32;
    return rope_forward(exec, shape, fp32.inout(qkv), cosines, sines);
  }
  rotate(exec, "cohort::rope_forward", shape, qkv, cosines, sines, 1.0f);
}

void rope_backward(const Exec& exec, const AttentionShape& shape, const Tensor& dqkv, const Tensor& cosines,
                   const Tensor& sines) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::rope_backward(exec, shape, dqkv, cosines, sines);
  }
  if (is_narrow(dqkv)) {
    Fp32Copies fp32;
    return rope_backward(exec, shape, fp32.inout(dqkv), cosines, sines);
  }
  rotate(exec, "cohort::rope_backward", shape, dqkv, cosines, sines, -1.0f);
}

void rope_tables(const Tensor& cosines, const Tensor& sines, double theta) {
  const Count half = cosines.shape().columns();
  for (Count t = 0; t < cosines.shape().rows(); ++t) {
    for (Count i = 0; i < half; ++i) {
      const double angle = static_cast<double>(t) * std::pow(theta, -static_cast<double>(i) / static_cast<double>(half));
      cosines.f32()[t * half + i] = static_cast<float>(std::cos(angle));
      sines.f32()[t * half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

}  // namespace cohort::ops
