// Lab 12: one way to write it.
#include <algorithm>
#include <cmath>
#include <cohort/lab12_kernels.hpp>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

using cohort::lab::CountedMatrix;
using cohort::lab::Matrix;

// 12.1: three blocks of 32 x 32 are 12 KiB. In a block the columns are the innermost loop: neighbours in memory.
template <class M>
void multiply_in_blocks(M c, M a, M b) {
  constexpr std::size_t kBlock = 32;
  const auto end_of = [](std::size_t begin, std::size_t size) { return std::min(begin + kBlock, size); };
  for (std::size_t i0 = 0; i0 < c.rows; i0 += kBlock) {
    for (std::size_t k0 = 0; k0 < a.columns; k0 += kBlock) {
      for (std::size_t j0 = 0; j0 < c.columns; j0 += kBlock) {
        const std::size_t i1 = end_of(i0, c.rows), k1 = end_of(k0, a.columns), j1 = end_of(j0, c.columns);
        for (std::size_t i = i0; i < i1; ++i) {
          for (std::size_t k = k0; k < k1; ++k) {
            const float factor = a(i, k);
            for (std::size_t j = j0; j < j1; ++j) c(i, j) += factor * b(k, j);
          }
        }
      }
    }
  }
}

void matmul_blocked(Matrix c, Matrix a, Matrix b) { multiply_in_blocks(c, a, b); }
void matmul_blocked_counted(CountedMatrix c, CountedMatrix a, CountedMatrix b) { multiply_in_blocks(c, a, b); }

namespace {

constexpr float kRoot = 0.7978845608028654f;  // sqrt(2 / pi)
constexpr float kCubic = 0.044715f;

}  // namespace

// 12.2
void bias_gelu_forward(std::span<float> out, std::span<const float> x, std::span<const float> bias) {
  const std::size_t columns = bias.size();
  for (std::size_t row = 0; row < x.size(); row += columns) {
    for (std::size_t c = 0; c < columns; ++c) {
      const float z = x[row + c] + bias[c];
      out[row + c] = 0.5f * z * (1.0f + std::tanh(kRoot * (z + kCubic * z * z * z)));
    }
  }
}

// 12.3
void bias_gelu_backward(std::span<float> dx, std::span<float> dbias, std::span<const float> dout, std::span<const float> x,
                        std::span<const float> bias) {
  const std::size_t columns = bias.size();
  for (std::size_t row = 0; row < x.size(); row += columns) {
    for (std::size_t c = 0; c < columns; ++c) {
      const float z = x[row + c] + bias[c];
      const float t = std::tanh(kRoot * (z + kCubic * z * z * z));
      const float slope = 0.5f * (1.0f + t) + 0.5f * z * (1.0f - t * t) * kRoot * (1.0f + 3.0f * kCubic * z * z);
      dx[row + c] = dout[row + c] * slope;
      dbias[c] += dx[row + c];
    }
  }
}

// 12.4: Welford 1962
void moments_add(Moments& moments, std::span<const float> part) {
  for (const float x : part) {
    moments.count += 1.0f;
    const float before = x - moments.mean;
    moments.mean += before / moments.count;
    moments.squares += before * (x - moments.mean);
  }
}

// 12.5: Milakov, Gimelshein 2018, algorithm 3
void softmax_add(SoftmaxSum& softmax, std::span<const float> logits) {
  constexpr float kNothing = -std::numeric_limits<float>::infinity();
  float largest = softmax.largest;
  for (const float logit : logits) largest = std::max(largest, logit);
  if (softmax.largest != kNothing) softmax.sum *= std::exp(softmax.largest - largest);
  softmax.largest = largest;
  for (const float logit : logits) {
    if (logit != kNothing) softmax.sum += std::exp(logit - largest);
  }
}

// 12.6: Dao et al. 2022, algorithm 1, for one query
void attention_add(AttentionRow& row, std::span<const float> query, std::span<const float> keys, std::span<const float> values,
                   float scale) {
  const std::size_t size = query.size(), count = keys.size() / size;
  if (count == 0) return;
  std::vector<float> scores(count);
  float largest = row.largest;
  for (std::size_t k = 0; k < count; ++k) {
    float product = 0.0f;
    for (std::size_t d = 0; d < size; ++d) product += query[d] * keys[k * size + d];
    scores[k] = scale * product;
    largest = std::max(largest, scores[k]);
  }
  const float shrink = std::exp(row.largest - largest);  // 0 at the first keys
  row.largest = largest;
  row.sum *= shrink;
  for (float& value : row.values) value *= shrink;
  for (std::size_t k = 0; k < count; ++k) {
    const float weight = std::exp(scores[k] - largest);
    row.sum += weight;
    for (std::size_t d = 0; d < size; ++d) row.values[d] += weight * values[k * size + d];
  }
}

// 12.7
void adamw_fused(std::span<float> w, std::span<float> m, std::span<float> v, std::span<const float> gradient,
                 const AdamWSettings& settings) {
  const auto correction = [&](float beta) { return static_cast<float>(1.0 / (1.0 - std::pow(double{beta}, settings.step))); };
  const float of_m = correction(settings.beta1), of_v = correction(settings.beta2);
  for (std::size_t i = 0; i < w.size(); ++i) {
    const float g = settings.gradient_scale * gradient[i];
    m[i] = settings.beta1 * m[i] + (1.0f - settings.beta1) * g;
    v[i] = settings.beta2 * v[i] + (1.0f - settings.beta2) * g * g;
    const float direction = m[i] * of_m / (std::sqrt(v[i] * of_v) + settings.epsilon);
    w[i] -= settings.learning_rate * (direction + settings.weight_decay * w[i]);
  }
}
