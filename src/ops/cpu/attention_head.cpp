#include "ops/cpu/attention_head.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "ops/fast_math.hpp"

namespace cohort::ops {
namespace {

// The logarithm of a sum over no keys.
constexpr float kNothing = -std::numeric_limits<float>::infinity();

MatrixView rows(const MatrixView& m, Count begin, Count count) { return {m.data + begin * m.stride, count, m.columns, m.stride}; }

// A tile of scores: of all keys those that some query of the tile sees.
struct KeyRange {
  Count first, count;
};

// Of that, what query row i of the head sees: its keys [begin, end).
struct Visible {
  Visible(const AttentionHead& head, Count i, const KeyRange& tile)
      : begin(head.hidden_keys(i) - tile.first), end(head.visible_keys(i) - tile.first), keys(tile.count) {}

  Count count() const { return end - begin; }
  void clear_others(float* row) const {
    for (Count j = 0; j < begin; ++j) row[j] = 0.0f;
    for (Count j = end; j < keys; ++j) row[j] = 0.0f;
  }

  Count begin, end, keys;
};

// Softmax of one row of `valid` scores. Returns the log of the denominator.
float softmax_row(float* row, Count valid) {
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

// For one query row: turns its `valid` scores into weights p (dropout applied) and its dp = dout v^T into ds, the gradient with
// respect to the unscaled scores times `scale`. `delta` is the row's sum of dout * out; `query` and `key` are positions, that of
// the first of the keys.
void backward_row(float* p, float* dp, Count valid, Count query, Count key, float lse, float delta, float scale,
                  const WeightDropout& dropout) {
  if (dropout.active()) {
    for (Count j = 0; j < valid; ++j) {
      const float weight = fast_exp(p[j] - lse);
      const float factor = dropout.factor(query, key + j);
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

void zero(const MatrixView& m) {
  for (Count i = 0; i < m.rows; ++i) std::fill_n(m.data + i * m.stride, m.columns, 0.0f);
}

// The keys that queries [begin, begin + count) see: documents ascend, so the first sees the earliest and the last the latest.
KeyRange keys_of_tile(const AttentionHead& head, Count begin, Count count) {
  const Count first = head.hidden_keys(begin);
  return {first, head.visible_keys(begin + count - 1) - first};
}

}  // namespace

float* tiles_of_thread(Count elements) {
  thread_local std::vector<float> tiles;
  if (static_cast<Count>(tiles.size()) < elements) tiles.resize(static_cast<std::size_t>(elements));
  return tiles.data();
}

void attention_head_forward(const Exec& exec, const AttentionHead& head, const MatrixView& out, float* lse, float* tile,
                            const WeightDropout& dropout) {
  for (Count begin = 0; begin < head.q.rows; begin += kQueryTile) {
    const Count count = std::min(kQueryTile, head.q.rows - begin);
    const KeyRange keys = keys_of_tile(head, begin, count);
    const MatrixView out_rows = rows(out, begin, count);
    if (keys.count == 0) {
      forward_nothing(out_rows, lse + begin);
      continue;
    }
    const MatrixView weights{tile, count, keys.count, keys.count};
    gemm(exec, weights, rows(head.q, begin, count), Transpose::no, rows(head.k, keys.first, keys.count), Transpose::yes,
         score_scale(head));
    for (Count i = 0; i < count; ++i) {
      float* row = tile + i * keys.count;
      const Visible visible(head, begin + i, keys);
      visible.clear_others(row);
      lse[begin + i] = softmax_row(row + visible.begin, visible.count());
      if (!dropout.active()) continue;
      for (Count j = visible.begin; j < visible.end; ++j)
        row[j] *= dropout.factor(head.first_query + begin + i, head.first_key + keys.first + j);
    }
    gemm(exec, out_rows, weights, Transpose::no, rows(head.v, keys.first, keys.count), Transpose::no);
  }
}

void attention_head_backward(const Exec& exec, const AttentionHead& head, const AttentionHeadGradients& gradients,
                             const MatrixView& dout, const MatrixView& out, const float* lse, float* tiles,
                             const WeightDropout& dropout) {
  const float scale = score_scale(head);
  const Count last_tile = (head.q.rows - 1) / kQueryTile;
  bool add_to_keys = gradients.add_to_keys;
  if (!add_to_keys && head.first_keys != nullptr) {  // the last tile may not see the first keys
    zero(gradients.dk);
    zero(gradients.dv);
    add_to_keys = true;
  }
  // From the last tile to the first: the last one sees the most keys, so it can overwrite dk and dv and no pass to zero them is
  // needed.
  for (Count index = last_tile; index >= 0; --index) {
    const Count begin = index * kQueryTile;
    const Count count = std::min(kQueryTile, head.q.rows - begin);
    const KeyRange keys = keys_of_tile(head, begin, count);
    if (keys.count == 0) continue;
    const auto of_keys = [&](const MatrixView& m) { return rows(m, keys.first, keys.count); };
    const MatrixView p{tiles, count, keys.count, keys.count};
    const MatrixView ds{tiles + count * keys.count, count, keys.count, keys.count};
    const MatrixView q_rows = rows(head.q, begin, count);
    const MatrixView dout_rows = rows(dout, begin, count);
    gemm(exec, p, q_rows, Transpose::no, of_keys(head.k), Transpose::yes, scale);
    gemm(exec, ds, dout_rows, Transpose::no, of_keys(head.v), Transpose::yes);
    for (Count i = 0; i < count; ++i) {
      const Count query = begin + i;
      const float delta = dot(dout.data + query * dout.stride, out.data + query * out.stride, head.q.columns);
      const Visible visible(head, query, keys);
      float* const p_row = p.data + i * keys.count;
      float* const ds_row = ds.data + i * keys.count;
      visible.clear_others(p_row);
      visible.clear_others(ds_row);
      backward_row(p_row + visible.begin, ds_row + visible.begin, visible.count(), head.first_query + query,
                   head.first_key + keys.first + visible.begin, lse[query], delta, scale, dropout);
    }
    const float keep = add_to_keys || index < last_tile ? 1.0f : 0.0f;
    gemm(exec, of_keys(gradients.dv), p, Transpose::yes, dout_rows, Transpose::no, 1.0f, keep);
    gemm(exec, of_keys(gradients.dk), ds, Transpose::yes, q_rows, Transpose::no, 1.0f, keep);
    gemm(exec, rows(gradients.dq, begin, count), ds, Transpose::no, of_keys(head.k), Transpose::no, 1.0f,
         gradients.add_to_queries ? 1.0f : 0.0f);
  }
}

}  // namespace cohort::ops
