#include "ops/adamw.hpp"

#include <cmath>

#include "ops/parallel.hpp"

namespace cohort::ops {
namespace {

// Elements of one iteration: large enough to hide the loop, small enough to spread over threads; also the unit of summation.
constexpr Count kBlock = 4096;

template <class Body>
void for_blocks(const Exec& exec, const char* label, Count elements, const Body& body) {
  for_rows(exec, label, (elements + kBlock - 1) / kBlock,
           [=](Count block) { body(block * kBlock, std::min(elements, (block + 1) * kBlock)); });
}

}  // namespace

void adamw(const Exec& exec, const Tensor& weight, const Tensor& m, const Tensor& v, const Tensor& gradient,
           const AdamWStep& step) {
  const Count elements = weight.elements();
  COHORT_CHECK(m.elements() == elements && v.elements() == elements && gradient.elements() == elements,
               "adamw: {} weights, {} m, {} v, {} gradients", elements, m.elements(), v.elements(), gradient.elements());
  COHORT_CHECK(step.step >= 1, "adamw: step {} (the first is 1)", step.step);
  // The bias corrections in double precision: 1 - beta^step loses digits in fp32 for the first steps of a beta near 1.
  const auto correction = [&](float beta) {
    return static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(beta), static_cast<double>(step.step))));
  };
  const float m_correction = correction(step.beta1);
  const float v_correction = correction(step.beta2);
  float* w = weight.f32();
  float* ms = m.f32();
  float* vs = v.f32();
  const float* g = gradient.f32();
  for_blocks(exec, "cohort::adamw", elements, [=](Count begin, Count end) {
#pragma omp simd
    for (Count i = begin; i < end; ++i) {
      const float gradient_i = g[i] * step.gradient_scale;
      ms[i] = step.beta1 * ms[i] + (1.0f - step.beta1) * gradient_i;
      vs[i] = step.beta2 * vs[i] + (1.0f - step.beta2) * gradient_i * gradient_i;
      const float update = ms[i] * m_correction / (std::sqrt(vs[i] * v_correction) + step.epsilon);
      w[i] -= step.learning_rate * (update + step.weight_decay * w[i]);
    }
  });
}

double sum_of_squares(const Exec& exec, const Tensor& x) {
  const Count elements = x.elements();
  const float* xs = x.f32();
  double total = 0.0;
  // fp32 within a block's lanes would lose digits over millions of elements; each lane adds in double.
  Kokkos::parallel_reduce(
      "cohort::sum_of_squares", row_range(exec, (elements + kBlock - 1) / kBlock),
      [=](Count block, double& sum) {
        double block_sum = 0.0;
        const Count end = std::min(elements, (block + 1) * kBlock);
#pragma omp simd reduction(+ : block_sum)
        for (Count i = block * kBlock; i < end; ++i) block_sum += static_cast<double>(xs[i]) * static_cast<double>(xs[i]);
        sum += block_sum;
      },
      total);
  return total;
}

void scale(const Exec& exec, const Tensor& x, float factor) {
  float* xs = x.f32();
  for_blocks(exec, "cohort::scale", x.elements(), [=](Count begin, Count end) {
#pragma omp simd
    for (Count i = begin; i < end; ++i) xs[i] *= factor;
  });
}

}  // namespace cohort::ops
