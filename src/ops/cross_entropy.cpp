#include "ops/cross_entropy.hpp"

#include <cmath>

#include "ops/parallel.hpp"
#include "ops/softmax_row.hpp"
#include "ops/tuned.hpp"

namespace cohort::ops {
namespace {

void check(const Exec& exec, const Tensor& logits, Count classes, std::span<const std::int32_t> targets) {
  COHORT_CHECK(static_cast<Count>(targets.size()) == logits.shape().rows() && classes <= logits.shape().columns(),
               "cross entropy: {} targets, {} classes, logits {}", targets.size(), classes, logits.shape().str());
  if (exec.gpu() || counting()) return;  // in device memory whoever copied them there has checked them
  for (std::size_t r = 0; r < targets.size(); ++r) {
    COHORT_CHECK(targets[r] == kIgnoredTarget || (targets[r] >= 0 && targets[r] < classes),
                 "cross entropy: target {} at row {} is outside the vocabulary of {}", targets[r], r, classes);
  }
}

KOKKOS_INLINE_FUNCTION double row_loss(float sum, float largest, float logit) {
  return std::log(static_cast<double>(sum)) + static_cast<double>(largest) - static_cast<double>(logit);
}

template <class T>
void loss_kernel(const Exec& exec, double* loss, const T* logits, Count rows, Count n, Count stride,
                 const std::int32_t* targets) {
  add_row_sums(
      exec, "cohort::cross_entropy_forward", rows, loss, KOKKOS_LAMBDA(const Row& row) {
        const T* x = logits + row.index() * stride;
        const std::int32_t target = targets[row.index()];
        if (target == kIgnoredTarget) return 0.0;
        const float largest = row.max(n, [=](Count v) { return to_float(x[v]); });
        const float sum = row.sum(n, [=](Count v) { return fast_exp(to_float(x[v]) - largest); });
        return row_loss(sum, largest, to_float(x[target]));
      });
}

template <class T>
void loss_and_gradient_kernel(const Exec& exec, double* loss, T* logits, Count rows, Count n, Count stride,
                              const std::int32_t* targets, float scale) {
  add_row_sums(
      exec, "cohort::cross_entropy_forward_backward", rows, loss, KOKKOS_LAMBDA(const Row& row) {
        T* x = logits + row.index() * stride;
        const std::int32_t target = targets[row.index()];
        row.each(stride - n, [=](Count v) { x[n + v] = from_float<T>(0.0f); });
        if (target == kIgnoredTarget) {
          row.each(n, [=](Count v) { x[v] = from_float<T>(0.0f); });
          return 0.0;
        }
        const float largest = row.max(n, [=](Count v) { return to_float(x[v]); });
        const float logit = to_float(x[target]);
        const float sum = row.sum(n, [=](Count v) { return keep_exp(x[v], largest); });
        const float factor = scale / sum;
        row.each(n, [=](Count v) { x[v] = from_float<T>(kept_exp(x[v], largest) * factor); });
        row.barrier();
        row.once([=] { x[target] = from_float<T>(fast_exp(logit - largest) * factor - scale); });
        return row_loss(sum, largest, logit);
      });
}

}  // namespace

void cross_entropy_forward(const Exec& exec, const Tensor& loss_sum, const Tensor& logits, Count classes,
                           std::span<const std::int32_t> targets) {
  if (const auto kernel = tuned_kernels(exec).cross_entropy_forward) return kernel(exec, loss_sum, logits, classes, targets);
  check(exec, logits, classes, targets);
  with_storage_type(logits, [&]<class T>(T) {
    loss_kernel<T>(exec, loss_sum.data<double>(), logits.data<T>(), logits.shape().rows(), classes, logits.shape().columns(),
                   targets.data());
  });
}

void cross_entropy_forward_backward(const Exec& exec, const Tensor& loss_sum, const Tensor& logits, Count classes,
                                    std::span<const std::int32_t> targets, float scale) {
  if (const auto kernel = tuned_kernels(exec).cross_entropy_forward_backward)
    return kernel(exec, loss_sum, logits, classes, targets, scale);
  check(exec, logits, classes, targets);
  with_storage_type(logits, [&]<class T>(T) {
    loss_and_gradient_kernel<T>(exec, loss_sum.data<double>(), logits.data<T>(), logits.shape().rows(), classes,
                                logits.shape().columns(), targets.data(), scale);
  });
}

}  // namespace cohort::ops
