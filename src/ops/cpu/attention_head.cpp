#include "ops/cpu/attention_head.hpp"

#include <cmath>
#include <limits>

#include "ops/fast_math.hpp"

namespace cohort::ops {
namespace {

// The logarithm of a sum over no keys.
constexpr float kNothing = -std::numeric_limits<float>::infinity();

MatrixView rows(const MatrixView& m, Count begin, Count count) { return {m.data + begin * m.stride, count, m.columns, m.stride}; }

// Softmax of one row of scores over its `valid` first keys; the rest of the tile's row becomes 0. Returns the log of the
// denominator.
float softmax_row(float* row, Count valid, Count keys) {
  for (Count j = valid; j < keys; ++j) row[j] = 0.0f;
  if (valid == 0) return kNothing;
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
  return largest + std::log(sum);
}

// For one query row: turns its scores into weights p (dropout applied) and its dp = dout v^T into ds, the gradient with respect
// to the unscaled scores times `scale`. `delta` is the row's sum of dout * out.
void backward_row(float* p, float* dp, const AttentionHead& head, Count i, Count keys, float lse, float delta, float scale,
                  const WeightDropout& dropout) {
  const Count valid = head.visible_keys(i);
  if (dropout.active()) {
    for (Count j = 0; j < valid; ++j) {
      const float weight = fast_exp(p[j] - lse);
      const float factor = dropout.factor(head.first_query + i, head.first_key + j);
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

float score_scale(const AttentionHead& head) { return 1.0f / std::sqrt(static_cast<float>(head.q.columns)); }

// Of queries that see no key.
void forward_nothing(const MatrixView& out, float* lse) {
  for (Count i = 0; i < out.rows; ++i) {
    std::fill_n(out.data + i * out.stride, out.columns, 0.0f);
    lse[i] = kNothing;
  }
}

}  // namespace

void attention_head_forward(const Exec& exec, const AttentionHead& head, const MatrixView& out, float* lse, float* tile,
                            const WeightDropout& dropout) {
  for (Count begin = 0; begin < head.q.rows; begin += kQueryTile) {
    const Count count = std::min(kQueryTile, head.q.rows - begin);
    const Count keys = head.visible_keys(begin + count - 1);  // no query of this tile sees a key beyond
    const MatrixView out_rows = rows(out, begin, count);
    if (keys == 0) {
      forward_nothing(out_rows, lse + begin);
      continue;
    }
    const MatrixView weights{tile, count, keys, keys};
    gemm(exec, weights, rows(head.q, begin, count), Transpose::no, rows(head.k, 0, keys), Transpose::yes, score_scale(head));
    for (Count i = 0; i < count; ++i) {
      float* row = tile + i * keys;
      const Count valid = head.visible_keys(begin + i);
      lse[begin + i] = softmax_row(row, valid, keys);
      if (!dropout.active()) continue;
      for (Count j = 0; j < valid; ++j) row[j] *= dropout.factor(head.first_query + begin + i, head.first_key + j);
    }
    gemm(exec, out_rows, weights, Transpose::no, rows(head.v, 0, keys), Transpose::no);
  }
}

void attention_head_backward(const Exec& exec, const AttentionHead& head, const AttentionHeadGradients& gradients,
                             const MatrixView& dout, const MatrixView& out, const float* lse, float* tiles,
                             const WeightDropout& dropout) {
  const float scale = score_scale(head);
  const Count last_tile = (head.q.rows - 1) / kQueryTile;
  // From the last tile to the first: the last one sees the most keys, so it can overwrite dk and dv and no pass to zero them is
  // needed.
  for (Count index = last_tile; index >= 0; --index) {
    const Count begin = index * kQueryTile;
    const Count count = std::min(kQueryTile, head.q.rows - begin);
    const Count keys = head.visible_keys(begin + count - 1);
    if (keys == 0) continue;
    const MatrixView p{tiles, count, keys, keys};
    const MatrixView ds{tiles + count * keys, count, keys, keys};
    const MatrixView q_rows = rows(head.q, begin, count);
    const MatrixView dout_rows = rows(dout, begin, count);
    gemm(exec, p, q_rows, Transpose::no, rows(head.k, 0, keys), Transpose::yes, scale);
    gemm(exec, ds, dout_rows, Transpose::no, rows(head.v, 0, keys), Transpose::yes);
    for (Count i = 0; i < count; ++i) {
      const Count query = begin + i;
      const float delta = dot(dout.data + query * dout.stride, out.data + query * out.stride, head.q.columns);
      backward_row(p.data + i * keys, ds.data + i * keys, head, query, keys, lse[query], delta, scale, dropout);
    }
    const float keep = gradients.add_to_keys || index < last_tile ? 1.0f : 0.0f;
    gemm(exec, rows(gradients.dv, 0, keys), p, Transpose::yes, dout_rows, Transpose::no, 1.0f, keep);
    gemm(exec, rows(gradients.dk, 0, keys), ds, Transpose::yes, q_rows, Transpose::no, 1.0f, keep);
    gemm(exec, rows(gradients.dq, begin, count), ds, Transpose::no, rows(head.k, 0, keys), Transpose::no, 1.0f,
         gradients.add_to_queries ? 1.0f : 0.0f);
  }
}

}  // namespace cohort::ops
