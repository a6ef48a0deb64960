#include "ops/adamw.hpp"

#include <cmath>

#include "ops/cuda/ops.hpp"
#include "ops/fp32_copies.hpp"
#include "ops/parallel.hpp"
#include "tensor/convert.hpp"

namespace cohort::ops {
namespace {

// Elements of one iteration: large enough to hide the loop, small enough to spread over threads; also the unit of summation.
constexpr Count kBlock = 4096;

template <class Body>
void for_blocks(const Exec& exec, const char* label, Count elements, const Body& body) {
  for_rows(exec, label, (elements + kBlock - 1) / kBlock,
           [=](Count block) { body(block * kBlock, std::min(elements, (block + 1) * kBlock)); });
}

const OptimizerScalars& scalars_in(const Tensor& scalars) {
  COHORT_CHECK(scalars.bytes() == sizeof(OptimizerScalars), "optimizer scalars in {} bytes", scalars.bytes());
  return *reinterpret_cast<const OptimizerScalars*>(scalars.data<std::uint8_t>());
}

void update_range(const Exec& exec, const AdamWTensors& tensors, const AdamWRange& range, const AdamWStep& step,
                  float gradient_scale) {
  // The bias corrections in double precision: 1 - beta^step loses digits in fp32 for the first steps of a beta near 1.
  const auto correction = [&](float beta) {
    return static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(beta), static_cast<double>(step.step))));
  };
  const float m_correction = correction(step.beta1);
  const float v_correction = correction(step.beta2);
  const float weight_decay = range.weight_decay;
  float* w = tensors.weight.f32() + range.begin;
  float* ms = tensors.m.f32() + range.begin;
  float* vs = tensors.v.f32() + range.begin;
  const float* g = tensors.gradient.f32() + range.begin;
  for_blocks(exec, "cohort::adamw", range.end - range.begin, [=](Count begin, Count end) {
#pragma omp simd
    for (Count i = begin; i < end; ++i) {
      const float gradient_i = g[i] * gradient_scale;
      ms[i] = step.beta1 * ms[i] + (1.0f - step.beta1) * gradient_i;
      vs[i] = step.beta2 * vs[i] + (1.0f - step.beta2) * gradient_i * gradient_i;
      const float update = ms[i] * m_correction / (std::sqrt(vs[i] * v_correction) + step.epsilon);
      w[i] -= step.learning_rate * (update + weight_decay * w[i]);
    }
  });
}

}  // namespace

void adamw(const Exec& exec, const AdamWTensors& tensors, const Tensor& ranges, const AdamWStep& step, const Tensor& scalars) {
  const Count elements = tensors.weight.elements();
  COHORT_CHECK(tensors.m.elements() == elements && tensors.v.elements() == elements && tensors.gradient.elements() == elements &&
                   tensors.compute.elements() == elements,
               "adamw: {} weights, {} to compute with, {} m, {} v, {} gradients", elements, tensors.compute.elements(),
               tensors.m.elements(), tensors.v.elements(), tensors.gradient.elements());
  COHORT_CHECK(step.step >= 1, "adamw: step {} (the first is 1)", step.step);
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::adamw(exec, tensors, ranges, step, scalars);
  }
  const OptimizerScalars& decided = scalars_in(scalars);
  if (decided.skip != 0) return;
  const std::span all(reinterpret_cast<const AdamWRange*>(ranges.data<std::uint8_t>()),
                      static_cast<std::size_t>(ranges.bytes()) / sizeof(AdamWRange));
  for (const AdamWRange& range : all) update_range(exec, tensors, range, step, decided.gradient_scale);
  if (is_narrow(tensors.compute)) convert(tensors.compute, tensors.weight);
}

void sum_of_squares(const Exec& exec, const Tensor& sum, const Tensor& x) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::sum_of_squares(exec, sum, x);
  }
  const Count elements = x.elements();
  const float* xs = x.f32();
  double total = 0.0;
  // fp32 within a block's lanes would lose digits over millions of elements; each lane adds in double.
  Kokkos::parallel_reduce(
      "cohort::sum_of_squares", row_range(exec, (elements + kBlock - 1) / kBlock),
      [=](Count block, double& block_total) {
        double block_sum = 0.0;
        const Count end = std::min(elements, (block + 1) * kBlock);
#pragma omp simd reduction(+ : block_sum)
        for (Count i = block * kBlock; i < end; ++i) block_sum += static_cast<double>(xs[i]) * static_cast<double>(xs[i]);
        block_total += block_sum;
      },
      total);
  *sum.data<double>() += total;
}

void finish_gradient_norm(const Exec& exec, const Tensor& norm, const Tensor& scalars, const Tensor& sum, const Tensor& loss,
                          double loss_scale, double clip_norm) {
  double* norm_out = norm.data<double>();
  auto* decided = reinterpret_cast<OptimizerScalars*>(scalars.data<std::uint8_t>());
  const double* squares = sum.data<double>();
  const double* loss_sum = loss.data<double>();
  for_each_index(
      exec.device, "cohort::finish_gradient_norm", 1, KOKKOS_LAMBDA(Count) {
        const double value = std::sqrt(*squares) / loss_scale;
        const bool clips = clip_norm > 0.0 && value > clip_norm;
        *norm_out = value;
        decided->gradient_scale = static_cast<float>((clips ? clip_norm / value : 1.0) / loss_scale);
        // NaN and infinity are what 0 times them is not 0 for.
        decided->skip = value * 0.0 == 0.0 && *loss_sum * 0.0 == 0.0 ? 0 : 1;
      });
}

void scale(const Exec& exec, const Tensor& x, float factor) {
  float* xs = x.f32();
  for_each_index(
      exec.device, "cohort::scale", x.elements(), KOKKOS_LAMBDA(Count i) { xs[i] *= factor; });
}

}  // namespace cohort::ops
