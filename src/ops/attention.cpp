#include <cmath>

#include "base/random.hpp"
#include "ops/attention.hpp"
#include "ops/cuda/ops.hpp"
#include "ops/fast_math.hpp"
#include "ops/fp32_copies.hpp"
#include "ops/gemm.hpp"

namespace cohort::ops {
namespace {

// Query rows of one block. A block's score tile has as many rows and at most T columns: with 64 it stays in the second-level
// cache up to T = 1024, while the products are still large enough to run near the machine's peak.
constexpr Count kQueryBlock = 64;

// One head of one sample inside the packed activations.
struct Head {
  MatrixView q, k, v;  // [T, HS] each, with the packed row as stride
};

Head head_of(const AttentionShape& s, const Tensor& qkv, Count b, Count h) {
  float* sample = qkv.f32() + b * s.tokens * s.packed_width();
  const Count kv = h / (s.heads / s.kv_heads);
  const auto part = [&](Count column) {
    return MatrixView{sample + column * s.head_size, s.tokens, s.head_size, s.packed_width()};
  };
  return {part(h), part(s.heads + kv), part(s.heads + s.kv_heads + kv)};
}

MatrixView head_of_output(const AttentionShape& s, const Tensor& out, Count b, Count h) {
  return {out.f32() + b * s.tokens * s.width() + h * s.head_size, s.tokens, s.head_size, s.width()};
}

MatrixView rows(const MatrixView& m, Count begin, Count count) { return {m.data + begin * m.stride, count, m.columns, m.stride}; }

// Two tiles: the weights and their gradients.
Bytes host_scratch_bytes(const AttentionShape& s) {
  return 2 * std::min(kQueryBlock, s.tokens) * s.tokens * static_cast<Bytes>(sizeof(float));
}
// The caller's memory is of bytes.
float* tiles(const Tensor& scratch) { return reinterpret_cast<float*>(scratch.data<std::uint8_t>()); }

void check(const AttentionShape& s, const Tensor& qkv, const Tensor& out, const Tensor& lse, const Tensor& scratch) {
  COHORT_CHECK(s.kv_heads > 0 && s.heads % s.kv_heads == 0, "attention: {} query heads over {} key/value heads", s.heads,
               s.kv_heads);
  COHORT_CHECK(qkv.elements() == s.batch * s.tokens * s.packed_width() && out.elements() == s.batch * s.tokens * s.width() &&
                   lse.elements() == s.batch * s.heads * s.tokens,
               "attention: qkv {}, out {}, lse {}", qkv.shape().str(), out.shape().str(), lse.shape().str());
  COHORT_CHECK(scratch.bytes() >= host_scratch_bytes(s), "attention: scratch of {} bytes, {} needed", scratch.bytes(),
               host_scratch_bytes(s));
}

// Scales the weight of (query, key) as dropout would; the identity for probability 0.
class WeightDropout {
 public:
  WeightDropout(const AttentionShape& s, const DropoutKey& key, Count b, Count h)
      : random_(key.seed, RandomPurpose::dropout, key.step, key.layer),
        probability_(key.probability),
        keep_scale_(static_cast<float>(1.0 / (1.0 - key.probability))),
        tokens_(s.tokens),
        first_(active() ? (key.slots[static_cast<std::size_t>(b)] * s.heads + h) * s.tokens * s.tokens : 0) {}

  bool active() const { return probability_ > 0.0; }
  float factor(Count query, Count k) const {
    const auto index = static_cast<std::uint64_t>(first_ + query * tokens_ + k);
    return random_.uniform(index) >= probability_ ? keep_scale_ : 0.0f;
  }

 private:
  CounterRandom random_;
  double probability_;
  float keep_scale_;
  Count tokens_;
  Count first_;
};

// Softmax of one row of scores over its `valid` first keys; the rest of the tile's row becomes 0. Returns the log of the
// denominator.
float softmax_row(float* row, Count valid, Count keys) {
  float largest = row[0];
#pragma omp simd reduction(max : largest)
  for (Count j = 0; j < valid; ++j) largest = row[j] > largest ? row[j] : largest;
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (Count j = 0; j < valid; ++j) {
    row[j] = fast_exp(row[j] - largest);
    sum += row[j];
  }
  const float inverse = 1.0f / sum;
#pragma omp simd
  for (Count j = 0; j < valid; ++j) row[j] *= inverse;
  for (Count j = valid; j < keys; ++j) row[j] = 0.0f;
  return largest + std::log(sum);
}

void forward_head(const Exec& exec, const Head& head, const MatrixView& out, float* lse, float* tile,
                  const WeightDropout& dropout) {
  const Count tokens = head.q.rows;
  const float scale = 1.0f / std::sqrt(static_cast<float>(head.q.columns));
  for (Count begin = 0; begin < tokens; begin += kQueryBlock) {
    const Count count = std::min(kQueryBlock, tokens - begin);
    const Count keys = begin + count;  // no query of this block sees a key beyond
    const MatrixView weights{tile, count, keys, keys};
    gemm(exec, weights, rows(head.q, begin, count), Transpose::no, rows(head.k, 0, keys), Transpose::yes, scale);
    for (Count i = 0; i < count; ++i) {
      float* row = tile + i * keys;
      lse[begin + i] = softmax_row(row, begin + i + 1, keys);
      if (dropout.active()) {
        for (Count j = 0; j <= begin + i; ++j) row[j] *= dropout.factor(begin + i, j);
      }
    }
    gemm(exec, rows(out, begin, count), weights, Transpose::no, rows(head.v, 0, keys), Transpose::no);
  }
}

// For one query row: turns its scores into weights p (dropout applied) and its dp = dout v^T into ds, the gradient with respect
// to the unscaled scores times `scale`. `delta` is the row's sum of dout * out.
void backward_row(float* p, float* dp, Count query, Count keys, float lse, float delta, float scale,
                  const WeightDropout& dropout) {
  const Count valid = query + 1;
  if (dropout.active()) {
    for (Count j = 0; j < valid; ++j) {
      const float weight = fast_exp(p[j] - lse);
      const float factor = dropout.factor(query, j);
      p[j] = weight * factor;
      dp[j] = weight * (dp[j] * factor - delta) * scale;
    }
  } else {
#pragma omp simd
    for (Count j = 0; j < valid; ++j) {
      const float weight = fast_exp(p[j] - lse);
      p[j] = weight;
      dp[j] = weight * (dp[j] - delta) * scale;
    }
  }
  for (Count j = valid; j < keys; ++j) p[j] = dp[j] = 0.0f;
}

float dot(const float* x, const float* y, Count n) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (Count i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

// `first_of_group`: no other query head has added to this key/value head's gradient yet.
void backward_head(const Exec& exec, const Head& head, const Head& grad, const MatrixView& dout, const MatrixView& out,
                   const float* lse, float* scratch, bool first_of_group, const WeightDropout& dropout) {
  const Count tokens = head.q.rows;
  const Count size = head.q.columns;
  const float scale = 1.0f / std::sqrt(static_cast<float>(size));
  const Count blocks = (tokens + kQueryBlock - 1) / kQueryBlock;
  // From the last block to the first: the last one touches every key, so it can overwrite dk and dv and no pass to zero them is
  // needed.
  for (Count block = blocks - 1; block >= 0; --block) {
    const Count begin = block * kQueryBlock;
    const Count count = std::min(kQueryBlock, tokens - begin);
    const Count keys = begin + count;
    const MatrixView p{scratch, count, keys, keys};
    const MatrixView ds{scratch + count * keys, count, keys, keys};
    const MatrixView q_rows = rows(head.q, begin, count);
    const MatrixView dout_rows = rows(dout, begin, count);
    gemm(exec, p, q_rows, Transpose::no, rows(head.k, 0, keys), Transpose::yes, scale);
    gemm(exec, ds, dout_rows, Transpose::no, rows(head.v, 0, keys), Transpose::yes);
    for (Count i = 0; i < count; ++i) {
      const Count query = begin + i;
      const float delta = dot(dout.data + query * dout.stride, out.data + query * out.stride, size);
      backward_row(p.data + i * keys, ds.data + i * keys, query, keys, lse[query], delta, scale, dropout);
    }
    const float beta = first_of_group && block == blocks - 1 ? 0.0f : 1.0f;
    gemm(exec, rows(grad.v, 0, keys), p, Transpose::yes, dout_rows, Transpose::no, 1.0f, beta);
    gemm(exec, rows(grad.k, 0, keys), ds, Transpose::yes, q_rows, Transpose::no, 1.0f, beta);
    gemm(exec, rows(grad.q, begin, count), ds, Transpose::no, rows(head.k, 0, keys), Transpose::no);
  }
}

}  // namespace

Bytes attention_scratch_bytes(DeviceKind device, const AttentionShape& shape, DType dtype) {
  if constexpr (kCudaBuilt) {
    if (device == DeviceKind::cuda) return cuda::attention_scratch_bytes(shape, dtype);
  }
  return host_scratch_bytes(shape);
}

void attention_forward(const Exec& exec, const AttentionShape& shape, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                       const Tensor& scratch, const DropoutKey& dropout_key) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::attention_forward(exec, shape, out, lse, qkv, dropout_key);
  }
  if (is_narrow(out)) {
    Fp32Copies fp32;
    return attention_forward(exec, shape, fp32.out(out), lse, fp32.in(qkv), scratch, dropout_key);
  }
  check(shape, qkv, out, lse, scratch);
  for (Count b = 0; b < shape.batch; ++b) {
    for (Count h = 0; h < shape.heads; ++h) {
      forward_head(exec, head_of(shape, qkv, b, h), head_of_output(shape, out, b, h),
                   lse.f32() + (b * shape.heads + h) * shape.tokens, tiles(scratch), WeightDropout(shape, dropout_key, b, h));
    }
  }
}

void attention_backward(const Exec& exec, const AttentionShape& shape, const Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, const Tensor& scratch, const DropoutKey& dropout_key) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::attention_backward(exec, shape, dqkv, dout, out, lse, qkv, scratch, dropout_key);
  }
  if (is_narrow(dqkv)) {
    Fp32Copies fp32;
    return attention_backward(exec, shape, fp32.out(dqkv), fp32.in(dout), fp32.in(out), lse, fp32.in(qkv), scratch, dropout_key);
  }
  check(shape, qkv, out, lse, scratch);
  COHORT_CHECK(dqkv.elements() == qkv.elements() && dout.elements() == out.elements(), "attention backward: dqkv {}, dout {}",
               dqkv.shape().str(), dout.shape().str());
  for (Count b = 0; b < shape.batch; ++b) {
    for (Count h = 0; h < shape.heads; ++h) {
      backward_head(exec, head_of(shape, qkv, b, h), head_of(shape, dqkv, b, h), head_of_output(shape, dout, b, h),
                    head_of_output(shape, out, b, h), lse.f32() + (b * shape.heads + h) * shape.tokens, tiles(scratch),
                    h % (shape.heads / shape.kv_heads) == 0, WeightDropout(shape, dropout_key, b, h));
    }
  }
}

}  // namespace cohort::ops
