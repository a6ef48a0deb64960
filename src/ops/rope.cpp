#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/attention.hpp"
#include "ops/op_note.hpp"
#include "ops/parallel.hpp"
#include "ops/tuned.hpp"

namespace cohort::ops {
namespace {

// Rotates by +angle (sign = 1) or -angle (sign = -1). Queries and keys; values stay.
template <class T>
void rotate_kernel(const Exec& exec, const char* label, const AttentionShape& shape, T* qkv, const float* cosines,
                   const float* sines, float sign) {
  const Count rotated_heads = shape.heads + shape.kv_heads, half = shape.head_size / 2, tokens = shape.tokens;
  const Count packed_width = shape.packed_width(), head_size = shape.head_size;
  for_rows(
      exec, label, shape.batch * tokens, half, KOKKOS_LAMBDA(const Row& row) {
        const Count r = row.index();
        const auto cosine = in(cosines + r % tokens * half), sine = in(sines + r % tokens * half);
        for (Count h = 0; h < rotated_heads; ++h) {
          T* first = qkv + r * packed_width + h * head_size;
          row.zip(
              half,
              [=](float& a, float& b, float c, float s) {
                const float before = a;
                a = before * c - sign * b * s;
                b = b * c + sign * before * s;
              },
              in_out(first), in_out(first + half), cosine, sine);
        }
      });
}

void rotate(const Exec& exec, const char* label, const AttentionShape& shape, const Tensor& qkv, const Tensor& cosines,
            const Tensor& sines, float sign) {
  const Count half = shape.head_size / 2;
  COHORT_CHECK(shape.head_size % 2 == 0 && cosines.elements() == shape.tokens * half && sines.elements() == shape.tokens * half,
               "rope: head size {}, tables {}", shape.head_size, cosines.shape().str());
  with_storage_type(qkv,
                    [&]<class T>(T) { rotate_kernel<T>(exec, label, shape, qkv.data<T>(), cosines.f32(), sines.f32(), sign); });
}

// Of a pair that turns by `speed` radians a token.
double scaled_speed(const RopeSpec& spec, double speed) {
  if (spec.scaling == RopeScaling::none) return speed;
  const double slow = speed / spec.factor;
  if (spec.scaling == RopeScaling::linear) return slow;
  const double turns = static_cast<double>(spec.original_context) * speed / (2.0 * std::numbers::pi);
  const double kept = std::clamp((turns - spec.low) / (spec.high - spec.low), 0.0, 1.0);
  return (1.0 - kept) * slow + kept * speed;
}

}  // namespace

void rope_forward(const Exec& exec, const AttentionShape& shape, const Tensor& qkv, const Tensor& cosines, const Tensor& sines) {
  const OpNote note("rope_forward", {&qkv}, {&qkv});
  if (const auto kernel = tuned_kernels(exec).rope_forward) return kernel(exec, shape, qkv, cosines, sines);
  rotate(exec, "cohort::rope_forward", shape, qkv, cosines, sines, 1.0f);
}

void rope_backward(const Exec& exec, const AttentionShape& shape, const Tensor& dqkv, const Tensor& cosines,
                   const Tensor& sines) {
  const OpNote note("rope_backward", {&dqkv}, {&dqkv});
  if (const auto kernel = tuned_kernels(exec).rope_backward) return kernel(exec, shape, dqkv, cosines, sines);
  rotate(exec, "cohort::rope_backward", shape, dqkv, cosines, sines, -1.0f);
}

void rope_tables(const Tensor& cosines, const Tensor& sines, const RopeSpec& spec) {
  if (counting()) return;
  const Count half = cosines.shape().columns();
  for (Count i = 0; i < half; ++i) {
    const double speed = scaled_speed(spec, std::pow(spec.theta, -static_cast<double>(i) / static_cast<double>(half)));
    for (Count t = 0; t < cosines.shape().rows(); ++t) {
      const double angle = static_cast<double>(t) * speed;
      cosines.f32()[t * half + i] = static_cast<float>(std::cos(angle));
      sines.f32()[t * half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

}  // namespace cohort::ops
