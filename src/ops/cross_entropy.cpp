#include "ops/cross_entropy.hpp"

#include <cmath>

#include "ops/cuda/ops.hpp"
#include "ops/fast_math.hpp"
#include "ops/fp32_copies.hpp"
#include "ops/parallel.hpp"

namespace cohort::ops {
namespace {

// Both forms: with `gradient_scale` null only the loss is computed.
double cross_entropy(const Exec& exec, const char* label, const Tensor& logits, Count classes,
                     std::span<const std::int32_t> targets, const float* gradient_scale) {
  const Count rows = logits.shape().rows();
  const Count stride = logits.shape().columns();
  const Count n = classes;
  COHORT_CHECK(static_cast<Count>(targets.size()) == rows && n <= stride, "cross entropy: {} targets, {} classes, logits {}",
               targets.size(), n, logits.shape().str());
  for (std::size_t r = 0; r < targets.size(); ++r) {
    COHORT_CHECK(targets[r] == kIgnoredTarget || (targets[r] >= 0 && targets[r] < n),
                 "cross entropy: target {} at row {} is outside the vocabulary of {}", targets[r], r, n);
  }
  float* data = logits.f32();
  const std::int32_t* target = targets.data();
  const bool with_gradient = gradient_scale != nullptr;
  const float scale = with_gradient ? *gradient_scale : 0.0f;
  double loss = 0.0;
  Kokkos::parallel_reduce(
      label, row_range(exec, rows),
      [=](Count r, double& sum_of_losses) {
        float* row = data + r * stride;
        if (with_gradient) std::fill(row + n, row + stride, 0.0f);
        if (target[r] == kIgnoredTarget) {
          if (with_gradient) std::fill(row, row + n, 0.0f);
          return;
        }
        float largest = row[0];
#pragma omp simd reduction(max : largest)
        for (Count v = 0; v < n; ++v) largest = row[v] > largest ? row[v] : largest;
        const float logit = row[target[r]];
        float sum = 0.0f;
        if (with_gradient) {
#pragma omp simd reduction(+ : sum)
          for (Count v = 0; v < n; ++v) {
            row[v] = fast_exp(row[v] - largest);
            sum += row[v];
          }
          const float factor = scale / sum;
#pragma omp simd
          for (Count v = 0; v < n; ++v) row[v] *= factor;
          row[target[r]] -= scale;
        } else {
#pragma omp simd reduction(+ : sum)
          for (Count v = 0; v < n; ++v) sum += fast_exp(row[v] - largest);
        }
        sum_of_losses += std::log(static_cast<double>(sum)) + static_cast<double>(largest) - static_cast<double>(logit);
      },
      loss);
  return loss;
}

}  // namespace

void cross_entropy_forward(const Exec& exec, const Tensor& loss_sum, const Tensor& logits, Count classes,
                           std::span<const std::int32_t> targets) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::cross_entropy_forward(exec, loss_sum, logits, classes, targets);
  }
  if (is_narrow(logits)) {
    Fp32Copies fp32;
    return cross_entropy_forward(exec, loss_sum, fp32.in(logits), classes, targets);
  }
  *loss_sum.data<double>() += cross_entropy(exec, "cohort::cross_entropy_forward", logits, classes, targets, nullptr);
}

void cross_entropy_forward_backward(const Exec& exec, const Tensor& loss_sum, const Tensor& logits, Count classes,
                                    std::span<const std::int32_t> targets, float scale) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::cross_entropy_forward_backward(exec, loss_sum, logits, classes, targets, scale);
  }
  if (is_narrow(logits)) {
    Fp32Copies fp32;
    return cross_entropy_forward_backward(exec, loss_sum, fp32.inout(logits), classes, targets, scale);
  }
  *loss_sum.data<double>() += cross_entropy(exec, "cohort::cross_entropy_forward_backward", logits, classes, targets, &scale);
}

}  // namespace cohort::ops
