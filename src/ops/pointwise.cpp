#include "ops/pointwise.hpp"

#include "base/random.hpp"
#include "ops/parallel.hpp"

namespace cohort::ops {

void add_bias(const Exec& exec, const Tensor& x, const Tensor& bias) {
  const Count n = x.shape().columns();
  COHORT_CHECK(bias.elements() == n, "add_bias: bias {} to {}", bias.shape().str(), x.shape().str());
  float* xs = x.f32();
  const float* b = bias.f32();
  for_rows(exec, "cohort::add_bias", x.shape().rows(), [=](Count r) {
    float* row = xs + r * n;
#pragma omp simd
    for (Count c = 0; c < n; ++c) row[c] += b[c];
  });
}

void bias_backward(const Exec& exec, const Tensor& dbias, const Tensor& dx) {
  const Count rows = dx.shape().rows();
  const Count n = dx.shape().columns();
  COHORT_CHECK(dbias.elements() == n, "bias_backward: {} from {}", dbias.shape().str(), dx.shape().str());
  float* db = dbias.f32();
  const float* dxs = dx.f32();
  for_column_chunks(exec, "cohort::bias_backward", n, [=](Count begin, Count end) {
    for (Count r = 0; r < rows; ++r) {
      const float* row = dxs + r * n;
#pragma omp simd
      for (Count c = begin; c < end; ++c) db[c] += row[c];
    }
  });
}

void add(const Exec& exec, const Tensor& out, const Tensor& x, const Tensor& y) {
  COHORT_CHECK(out.elements() == x.elements() && out.elements() == y.elements(), "add: {} = {} + {}", out.shape().str(),
               x.shape().str(), y.shape().str());
  const Count n = out.shape().columns();
  float* o = out.f32();
  const float* xs = x.f32();
  const float* ys = y.f32();
  for_rows(exec, "cohort::add", out.shape().rows(), [=](Count r) {
#pragma omp simd
    for (Count i = r * n; i < (r + 1) * n; ++i) o[i] = xs[i] + ys[i];
  });
}

void add_residual(const Exec& exec, const Tensor& out, const Tensor& x, const Tensor& y, const Tensor& bias) {
  COHORT_CHECK(out.elements() == x.elements() && out.elements() == y.elements() && bias.elements() == x.shape().columns(),
               "add_residual: {} = {} + {} + {}", out.shape().str(), x.shape().str(), y.shape().str(), bias.shape().str());
  const Count n = out.shape().columns();
  float* o = out.f32();
  const float* xs = x.f32();
  const float* ys = y.f32();
  const float* b = bias.f32();
  for_rows(exec, "cohort::add_residual", out.shape().rows(), [=](Count r) {
    const Count base = r * n;
#pragma omp simd
    for (Count c = 0; c < n; ++c) o[base + c] = xs[base + c] + ys[base + c] + b[c];
  });
}

void dropout(const Exec& exec, const Tensor& x, const DropoutKey& key) {
  if (key.probability == 0.0) return;
  const auto samples = static_cast<Count>(key.slots.size());
  COHORT_CHECK(samples > 0 && x.shape().rows() % samples == 0, "dropout: {} rows over {} samples", x.shape().rows(), samples);
  const Count sample_elements = x.elements() / samples;
  const CounterRandom random(key.seed, RandomPurpose::dropout, key.step, key.layer);
  const double probability = key.probability;
  const auto keep_scale = static_cast<float>(1.0 / (1.0 - probability));
  const Count* slots = key.slots.data();
  float* xs = x.f32();
  for_rows(exec, "cohort::dropout", samples, [=](Count b) {
    float* sample = xs + b * sample_elements;
    const auto first = static_cast<std::uint64_t>(slots[b]) * static_cast<std::uint64_t>(sample_elements);
    for (Count i = 0; i < sample_elements; ++i) {
      sample[i] *= random.uniform(first + static_cast<std::uint64_t>(i)) >= probability ? keep_scale : 0.0f;
    }
  });
}

}  // namespace cohort::ops
