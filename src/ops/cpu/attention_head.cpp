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

// A tile: queries [first_query, first_query + queries) of a head, and of its keys those that some of them see, from the beginning
// of a panel of packed keys on.
struct ScoreTile {
  // Documents ascend, so the first query sees the earliest key and the last one the latest.
  ScoreTile(const AttentionHead& head, Count first)
      : first_query(first),
        queries(std::min(kQueryTile, head.q.rows - first)),
        first_key(head.hidden_keys(first) / cpu::kTileColumns * cpu::kTileColumns),
        keys(head.visible_keys(first + queries - 1) - first_key) {
    for (Count i = 0; i < queries; ++i) {
      begin[i] = head.hidden_keys(first + i) - first_key;
      end[i] = head.visible_keys(first + i) - first_key;
    }
  }

  bool empty() const { return end[queries - 1] == begin[0]; }
  SeenKeys seen() const { return {begin, end}; }
  MatrixView scores_in(float* memory) const { return {memory, queries, keys, tile_stride(keys)}; }
  MatrixView of_queries(const MatrixView& m) const { return rows(m, first_query, queries); }
  MatrixView of_keys(const MatrixView& m) const { return rows(m, first_key, keys); }
  // Keys in panels: that many rows further on.
  const float* of_packed(const float* packed, const MatrixView& m) const { return packed + first_key * m.columns; }
  // The vectors of a row in which query i sees a key.
  Count first_vector(Count i) const { return begin[i] / cpu::kTileLanes; }
  Count vectors(Count i) const {
    return begin[i] == end[i] ? 0 : (end[i] + cpu::kTileLanes - 1) / cpu::kTileLanes - first_vector(i);
  }
  /// The elements of a row that query i does not see, as far as its vectors go.
  void fill_vectors(Count i, float* row, float value) const {
    if (vectors(i) == 0) return;
    const Count first = first_vector(i) * cpu::kTileLanes;
    std::fill(row + first, row + begin[i], value);
    std::fill(row + end[i], row + first + vectors(i) * cpu::kTileLanes, value);
  }
  void clear_unseen(Count i, float* row) const {
    std::fill(row, row + begin[i], 0.0f);
    std::fill(row + end[i], row + keys, 0.0f);
  }

  Count first_query, queries, first_key, keys;
  Count begin[kQueryTile], end[kQueryTile];  // what query i of the tile sees of its keys
};

// Loops over a row take whole vectors: what is left of a row would take as long as many of them.

float largest_of(const float* row, Count vectors) {
  float largest = kNothing;
#pragma omp simd reduction(max : largest)
  for (Count j = 0; j < vectors * cpu::kTileLanes; ++j) largest = row[j] > largest ? row[j] : largest;
  return largest;
}

// Overwrites scores by exp((score - largest) scale); their sum.
float exponentials(float* row, Count vectors, float largest, float scale) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (Count j = 0; j < vectors * cpu::kTileLanes; ++j) {
    row[j] = fast_exp((row[j] - largest) * scale);
    sum += row[j];
  }
  return sum;
}

void multiply(float* row, Count vectors, float factor) {
#pragma omp simd
  for (Count j = 0; j < vectors * cpu::kTileLanes; ++j) row[j] *= factor;
}

// Turns a tile of scores into softmax weights, times `scale`; lse [queries] = the logarithms of the denominators. By steps and
// not by rows, so that no row waits for the sum of the one before. What is no score in a row's vectors is kNothing and becomes
// 1e-38, which does not change a denominator of 1 or more, and then 0: its product with a factor below 1 would be denormal, and
// those are slow.
void softmax(const ScoreTile& tile, const MatrixView& weights, float* lse, float scale) {
  float largest[kQueryTile], sums[kQueryTile];
  const auto row = [&](Count i) { return weights.data + i * weights.stride + tile.first_vector(i) * cpu::kTileLanes; };
  for (Count i = 0; i < tile.queries; ++i) tile.fill_vectors(i, weights.data + i * weights.stride, kNothing);
  for (Count i = 0; i < tile.queries; ++i) largest[i] = largest_of(row(i), tile.vectors(i));
  for (Count i = 0; i < tile.queries; ++i) sums[i] = exponentials(row(i), tile.vectors(i), largest[i], scale);
  for (Count i = 0; i < tile.queries; ++i) {
    tile.clear_unseen(i, weights.data + i * weights.stride);
    multiply(row(i), tile.vectors(i), 1.0f / sums[i]);
    lse[i] = tile.begin[i] == tile.end[i] ? kNothing : largest[i] * scale + std::log(sums[i]);
  }
}

// For the vectors of one query row: turns scores into weights p (dropout applied) and dp = dout v^T into ds, the gradient with
// respect to the unscaled scores times `scale`. `delta` is the row's sum of dout * out; `query` and `key` are positions, that of
// the first of the keys. What is no score there must be finite, and is something else afterwards.
void backward_row(float* p, float* dp, Count vectors, Count query, Count key, float lse, float delta, float scale,
                  const WeightDropout& dropout) {
  const Count n = vectors * cpu::kTileLanes;
  if (dropout.active()) {
    for (Count j = 0; j < n; ++j) {
      const float weight = fast_exp(p[j] * scale - lse);
      const float factor = dropout.factor(query, key + j);
      p[j] = weight * factor;
      dp[j] = weight * (dp[j] * factor - delta) * scale;
    }
  } else {
#pragma omp simd
    for (Count j = 0; j < n; ++j) {
      const float weight = fast_exp(p[j] * scale - lse);
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

void drop_weights(const AttentionHead& head, const ScoreTile& tile, const MatrixView& weights, const WeightDropout& dropout) {
  for (Count i = 0; i < tile.queries; ++i) {
    float* const row = weights.data + i * weights.stride;
    for (Count j = tile.begin[i]; j < tile.end[i]; ++j)
      row[j] *= dropout.factor(head.first_query + tile.first_query + i, head.first_key + tile.first_key + j);
  }
}

void backward_rows(const AttentionHead& head, const ScoreTile& tile, const MatrixView& p, const MatrixView& ds,
                   const MatrixView& dout, const MatrixView& out, const float* lse, float scale, const WeightDropout& dropout) {
  float delta[kQueryTile];
  for (Count i = 0; i < tile.queries; ++i) {
    delta[i] = dot(dout.data + i * dout.stride, out.data + i * out.stride, dout.columns);
    tile.fill_vectors(i, p.data + i * p.stride, 0.0f);
    tile.fill_vectors(i, ds.data + i * ds.stride, 0.0f);
  }
  for (Count i = 0; i < tile.queries; ++i) {
    float* const p_row = p.data + i * p.stride;
    float* const ds_row = ds.data + i * ds.stride;
    const Count query = tile.first_query + i, key = tile.first_vector(i) * cpu::kTileLanes;
    backward_row(p_row + key, ds_row + key, tile.vectors(i), head.first_query + query, head.first_key + tile.first_key + key,
                 lse[query], delta[i], scale, dropout);
    tile.clear_unseen(i, p_row);
    tile.clear_unseen(i, ds_row);
  }
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

// What attention_tile_elements are for.
struct HeadMemory {
  HeadMemory(const AttentionHead& head, float* memory)
      : weights(memory),
        gradients(weights + std::min(kQueryTile, head.q.rows) * tile_stride(head.k.rows)),
        keys(gradients + std::min(kQueryTile, head.q.rows) * tile_stride(head.k.rows)),
        values(keys + packed_key_elements(head.k.rows, head.k.columns)) {}

  float *weights, *gradients, *keys, *values;
};

}  // namespace

float* tiles_of_thread(Count elements) {
  thread_local std::vector<float> tiles;
  if (static_cast<Count>(tiles.size()) < elements) tiles.resize(static_cast<std::size_t>(elements));
  return tiles.data();
}

void attention_head_forward(const Exec& exec, const AttentionHead& head, const MatrixView& out, float* lse, float* memory,
                            const WeightDropout& dropout) {
  const cpu::TileKernel kernel = attention_kernel(head.q.columns);
  const HeadMemory parts(head, memory);
  if (kernel != nullptr) pack_keys(parts.keys, head.k);
  const float scale = score_scale(head);
  for (Count first = 0; first < head.q.rows; first += kQueryTile) {
    const ScoreTile tile(head, first);
    const MatrixView out_rows = tile.of_queries(out);
    if (tile.empty()) {
      forward_nothing(out_rows, lse + first);
      continue;
    }
    const MatrixView weights = tile.scores_in(parts.weights), keys = tile.of_keys(head.k);
    scores(exec, kernel, tile.seen(), weights, tile.of_queries(head.q), keys, tile.of_packed(parts.keys, keys));
    softmax(tile, weights, lse + first, scale);
    if (dropout.active()) drop_weights(head, tile, weights, dropout);
    times_keys(exec, kernel, tile.seen(), out_rows, weights, tile.of_keys(head.v), false);
  }
}

void attention_head_backward(const Exec& exec, const AttentionHead& head, const AttentionHeadGradients& gradients,
                             const MatrixView& dout, const MatrixView& out, const float* lse, float* memory,
                             const WeightDropout& dropout) {
  const cpu::TileKernel kernel = attention_kernel(head.q.columns);
  const HeadMemory parts(head, memory);
  if (kernel != nullptr) {
    pack_keys(parts.keys, head.k);
    pack_keys(parts.values, head.v);
  }
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
    const ScoreTile tile(head, index * kQueryTile);
    if (tile.empty()) continue;
    const MatrixView p = tile.scores_in(parts.weights), ds = tile.scores_in(parts.gradients);
    const MatrixView q = tile.of_queries(head.q), k = tile.of_keys(head.k), v = tile.of_keys(head.v);
    const MatrixView dout_rows = tile.of_queries(dout), out_rows = tile.of_queries(out);
    scores(exec, kernel, tile.seen(), p, q, k, tile.of_packed(parts.keys, k));
    scores(exec, kernel, tile.seen(), ds, dout_rows, v, tile.of_packed(parts.values, v));
    backward_rows(head, tile, p, ds, dout_rows, out_rows, lse, scale, dropout);
    const bool add = add_to_keys || index < last_tile;
    times_queries(exec, kernel, tile.seen(), tile.of_keys(gradients.dv), p, dout_rows, add);
    times_queries(exec, kernel, tile.seen(), tile.of_keys(gradients.dk), ds, q, add);
    times_keys(exec, kernel, tile.seen(), tile.of_queries(gradients.dq), ds, k, gradients.add_to_queries);
  }
}

}  // namespace cohort::ops
