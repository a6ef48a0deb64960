#include "ops/cross_entropy.hpp"

#include <cmath>

#include "ops/op_note.hpp"
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
  add_row_sums<RowThreads::team>(
      exec, "cohort::cross_entropy_forward", rows, n, loss, KOKKOS_LAMBDA(const Row& row) {
        const T* x = logits + row.index() * stride;
        const std::int32_t target = targets[row.index()];
        if (target == kIgnoredTarget) return 0.0;
        const float largest = row.max(n, in(x));
        const float sum = row.sum(
            n, [=](float logit) { return fast_exp(logit - largest); }, in(x));
        return row_loss(sum, largest, to_float(x[target]));
      });
}

template <class T>
void loss_and_gradient_kernel(const Exec& exec, double* loss, T* logits, Count rows, Count n, Count stride,
                              const std::int32_t* targets, float scale) {
  add_row_sums<RowThreads::team>(
      exec, "cohort::cross_entropy_forward_backward", rows, n, loss, KOKKOS_LAMBDA(const Row& row) {
        T* x = logits + row.index() * stride;
        const std::int32_t target = targets[row.index()];
        row.zip(
            stride - n, [=](float& padding) { padding = 0.0f; }, out(x + n));
        if (target == kIgnoredTarget) {
          row.zip(
              n, [=](float& gradient) { gradient = 0.0f; }, out(x));
          return 0.0;
        }
        const float logit = to_float(x[target]);  // before any thread overwrites it, as the next lines' sum keeps them from
        const float largest = row.max(n, in(x));
        const float sum = sum_and_keep_exponentials(row, n, x, largest);
        const float factor = scale / sum;
        row.zip(
            n, [=](float& element) { element = kept_exponential<T>(element, largest) * factor; }, in_out(x));
        row.at(
            n, target, [=](float& element) { element = fast_exp(logit - largest) * factor - scale; }, out(x));
        return row_loss(sum, largest, logit);
      });
}

}  // namespace

void cross_entropy_forward(const Exec& exec, const Tensor& loss_sum, const Tensor& logits, Count classes,
                           std::span<const std::int32_t> targets) {
  const OpNote note("cross_entropy_forward", {&logits}, {&loss_sum});
  if (const auto kernel = tuned_kernels(exec).cross_entropy_forward) return kernel(exec, loss_sum, logits, classes, targets);
  check(exec, logits, classes, targets);
  with_storage_type(logits, [&]<class T>(T) {
    loss_kernel<T>(exec, loss_sum.data<double>(), logits.data<T>(), logits.shape().rows(), classes, logits.shape().columns(),
                   targets.data());
  });
}

void cross_entropy_forward_backward(const Exec& exec, const Tensor& loss_sum, const Tensor& logits, Count classes,
                                    std::span<const std::int32_t> targets, float scale) {
  const OpNote note("cross_entropy_forward_backward", {&logits}, {&loss_sum, &logits});
  if (const auto kernel = tuned_kernels(exec).cross_entropy_forward_backward)
    return kernel(exec, loss_sum, logits, classes, targets, scale);
  check(exec, logits, classes, targets);
  with_storage_type(logits, [&]<class T>(T) {
    loss_and_gradient_kernel<T>(exec, loss_sum.data<double>(), logits.data<T>(), logits.shape().rows(), classes,
                                logits.shape().columns(), targets.data(), scale);
  });
}

}  // namespace cohort::ops
