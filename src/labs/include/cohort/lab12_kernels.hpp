// Lab 12: kernels. All arithmetic is fp32. No array overlaps another one unless the contract says so.
#pragma once

#include <cohort/lab.hpp>
#include <cstddef>
#include <limits>
#include <span>

namespace cohort::lab {

/// A matrix, row after row: a(i, j) is element j of row i.
struct Matrix {
  float* data;
  std::size_t rows, columns;
  float& operator()(std::size_t i, std::size_t j) const { return data[i * columns + j]; }
};

/// What the check counts memory traffic with: a cache that is told of every access.
class Cache {
 public:
  virtual ~Cache() = default;
  virtual void access(const float* element) = 0;
};

/// The same as Matrix, but its accesses are counted.
struct CountedMatrix {
  float* data;
  std::size_t rows, columns;
  Cache* cache;
  float& operator()(std::size_t i, std::size_t j) const {
    cache->access(data + i * columns + j);
    return data[i * columns + j];
  }
};

/// c += a b by the three loops of the definition: what 12.1 is compared with. Any type of matrix.
template <class M>
void multiply_naively(M c, M a, M b) {
  for (std::size_t i = 0; i < c.rows; ++i) {
    for (std::size_t j = 0; j < c.columns; ++j) {
      for (std::size_t k = 0; k < a.columns; ++k) c(i, j) += a(i, k) * b(k, j);
    }
  }
}

}  // namespace cohort::lab

extern "C" {

/// 12.1: c [m, n] += a [m, k] b [k, n], in blocks that fit into a cache, for any m, n, k, also 0 and sizes that no block divides.
/// Both functions are one template of yours: the second one counts. In a cache of 16 KiB it must fetch at most a quarter of the
/// lines that multiply_naively() fetches.
void matmul_blocked(cohort::lab::Matrix c, cohort::lab::Matrix a, cohort::lab::Matrix b);
void matmul_blocked_counted(cohort::lab::CountedMatrix c, cohort::lab::CountedMatrix a, cohort::lab::CountedMatrix b);

/// 12.2: out = gelu(x + bias) for each row of x, in one pass: x and out [rows, columns], bias [columns], columns = bias.size().
/// gelu(z) = z / 2 (1 + tanh(sqrt(2 / pi) (z + 0.044715 z^3))), finite for any finite z. `out` may be `x`.
void bias_gelu_forward(std::span<float> out, std::span<const float> x, std::span<const float> bias);

/// 12.3: dx = dout gelu'(x + bias), and dbias += the sums of dx over the rows, in one pass. `dx` may be `dout`.
void bias_gelu_backward(std::span<float> dx, std::span<float> dbias, std::span<const float> dout, std::span<const float> x,
                        std::span<const float> bias);

/// What is known of the numbers of a row so far. At the beginning all is 0.
struct Moments {
  float count;
  float mean;
  float squares;  // sum of (x - mean)^2, of the mean so far
};

/// 12.4: a part of a row has come, and will not come again: takes it in. `part` has any length, also 0. Afterwards the mean is
/// right to 1e-6 of its size, and squares / count, the variance, to 1 %, even if the mean is 10,000 times the standard deviation.
void moments_add(Moments& moments, std::span<const float> part);

/// The softmax of a row so far: its largest logit, and the sum of exp(logit - largest).
struct SoftmaxSum {
  float largest = -std::numeric_limits<float>::infinity();
  float sum = 0.0f;
};

/// 12.5: a part of a row's logits has come, and will not come again: takes it in. Logits are finite, of any size, or -infinity,
/// which has the probability 0; a part, or all so far, may have no other. A NaN makes the sum NaN.
void softmax_add(SoftmaxSum& softmax, std::span<const float> logits);

/// The attention of one query so far: as SoftmaxSum, and the sum of exp(score - largest) value over the keys.
struct AttentionRow {
  float largest = -std::numeric_limits<float>::infinity();
  float sum = 0.0f;
  std::span<float> values = {};  // [head size], all 0 at the beginning
};

/// 12.6: some keys and their values have come, and will not come again: takes them in. A score is scale * (query . key).
/// query [head size]; keys, values [number of keys, head size], any number of keys, also 0. Afterwards row.values / row.sum is
/// the attention over all keys so far. Beside the row it may use memory for the scores of these keys, not more.
void attention_add(AttentionRow& row, std::span<const float> query, std::span<const float> keys, std::span<const float> values,
                   float scale);

struct AdamWSettings {
  float learning_rate, beta1, beta2, epsilon, weight_decay;
  float gradient_scale;  // the gradient to use is gradient_scale * gradient: clipping costs no pass of its own
  long step;             // 1 for the first step
};

/// 12.7: a step of AdamW (Loshchilov, Hutter 2019, algorithm 2) in one pass over the four arrays, with bias correction:
///   m = beta1 m + (1 - beta1) g;   v = beta2 v + (1 - beta2) g^2
///   w = w - learning_rate (m / (1 - beta1^step) / (sqrt(v / (1 - beta2^step)) + epsilon) + weight_decay w)
void adamw_fused(std::span<float> w, std::span<float> m, std::span<float> v, std::span<const float> gradient,
                 const AdamWSettings& settings);
}
