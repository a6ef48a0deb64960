#include "ops/adamw.hpp"

#include <cmath>

#include "base/counting_listener.hpp"
#include "ops/parallel.hpp"
#include "ops/tuned.hpp"

namespace cohort::ops {
namespace {

template <class T>
void update_range(const Exec& exec, const AdamWTensors& tensors, const AdamWRange& range, const AdamWStep& step,
                  const OptimizerScalars* scalars) {
  // The bias corrections in double precision: 1 - beta^step loses digits in fp32 for the first steps of a beta near 1.
  const auto correction = [&](float beta) {
    return static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(beta), static_cast<double>(step.step))));
  };
  const float m_correction = correction(step.beta1);
  const float v_correction = correction(step.beta2);
  const float weight_decay = range.weight_decay;
  const Count elements = range.end - range.begin;
  float* weights = tensors.weight.f32() + range.begin;
  T* copies = tensors.compute.data<T>() + range.begin;
  float* ms = tensors.m.f32() + range.begin;
  float* vs = tensors.v.f32() + range.begin;
  const float* gradients = tensors.gradient.f32() + range.begin;
  for_rows(
      exec, "cohort::adamw", block_count(elements), kBlock, KOKKOS_LAMBDA(const Row& row) {
        if (scalars->skip != 0) return;
        const float gradient_scale = scalars->gradient_scale;
        const Count begin = row.index() * kBlock;
        const Count count = begin + kBlock < elements ? kBlock : elements - begin;
        const auto update = [=](float gradient, float& m, float& v, float& w) {
          gradient *= gradient_scale;
          m = step.beta1 * m + (1.0f - step.beta1) * gradient;
          v = step.beta2 * v + (1.0f - step.beta2) * gradient * gradient;
          const float direction = m * m_correction / (std::sqrt(v * v_correction) + step.epsilon);
          w -= step.learning_rate * (direction + weight_decay * w);
        };
        const auto g = in(gradients + begin);
        const auto m = in_out(ms + begin), v = in_out(vs + begin), w = in_out(weights + begin);
        [[maybe_unused]] const auto copy = out(copies + begin);
        if constexpr (std::is_same_v<T, float>) {  // what forward reads is the weights themselves
          row.zip(count, update, g, m, v, w);
        } else {
          row.zip(
              count,
              [=](float gradient, float& first, float& second, float& weight, float& rounded) {
                update(gradient, first, second, weight);
                rounded = weight;
              },
              g, m, v, w, copy);
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
  note_traffic("adamw", tensors.weight.dtype(), 7 * tensors.weight.bytes() + tensors.compute.bytes(), OpKind::optimizer);
  if (const auto kernel = tuned_kernels(exec).adamw) return kernel(exec, tensors, ranges, step, scalars);
  COHORT_CHECK(scalars.bytes() == sizeof(OptimizerScalars), "optimizer scalars in {} bytes", scalars.bytes());
  if (counting()) return;  // what is timed is the tuned kernel, which needs no copy of the ranges
  // The ranges lie where the optimizer runs, and each is a launch: there are a few of them.
  const Tensor here = ranges.to_host();
  const std::span all(reinterpret_cast<const AdamWRange*>(here.data<std::uint8_t>()),
                      static_cast<std::size_t>(here.bytes()) / sizeof(AdamWRange));
  with_storage_type(tensors.compute, [&]<class T>(T) {
    for (const AdamWRange& range : all) {
      update_range<T>(exec, tensors, range, step, reinterpret_cast<const OptimizerScalars*>(scalars.data<std::uint8_t>()));
    }
  });
}

void sum_of_squares(const Exec& exec, const Tensor& sum, const Tensor& x) {
  note_traffic("sum_of_squares", x.dtype(), x.bytes(), OpKind::optimizer);
  if (const auto kernel = tuned_kernels(exec).sum_of_squares) return kernel(exec, sum, x);
  const Count elements = x.elements();
  const float* xs = x.f32();
  // fp32 would lose digits over millions of elements.
  add_row_sums(
      exec, "cohort::sum_of_squares", block_count(elements), kBlock, sum.data<double>(), KOKKOS_LAMBDA(const Row& row) {
        const Count begin = row.index() * kBlock;
        const Count count = begin + kBlock < elements ? kBlock : elements - begin;
        return row.sum<double>(
            count, [=](float value) { return static_cast<double>(value) * static_cast<double>(value); }, in(xs + begin));
      });
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

}  // namespace cohort::ops
