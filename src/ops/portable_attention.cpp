#include "ops/portable_attention.hpp"

#include <cmath>

#include "ops/attention_tiles.hpp"

namespace cohort::ops {
namespace {

// Of the softmax weights of one tile of queries against one of keys: row i, columns [0, width), of which those between
// hidden_keys and visible_keys are seen. Takes them into the row's running maximum, sum and `keep`, what the row's output so far
// is to be multiplied by.
template <class Tiles, class T, class O>
KOKKOS_INLINE_FUNCTION void online_softmax_row(const HeadTask<T, O>& p, const WeightDropout& dropout, Count b, Count query,
                                               Count key, int width, float* scores, float& most, float& sum, float& keep) {
  const Count seen = p.visible_keys(query) - key;
  const int valid = static_cast<int>(seen < 0 ? 0 : seen < width ? seen : width);
  const Count before = p.hidden_keys(b, query) - key;
  const int hidden = static_cast<int>(before < 0 ? 0 : before < valid ? before : valid);
  float largest = most;
  for (int j = hidden; j < valid; ++j) largest = scores[j] > largest ? scores[j] : largest;
  keep = sum == 0.0f ? 0.0f : fast_exp(most - largest);
  sum *= keep;
  for (int j = 0; j < width; ++j) {
    const bool visible = j >= hidden && j < valid;
    const float weight = visible ? fast_exp(scores[j] - largest) : 0.0f;
    sum += weight;
    scores[j] = dropout.active() && visible ? weight * dropout.factor(p.first_query + query, p.first_key + key + j) : weight;
  }
  most = largest;
}

template <class Tiles, class T, class O>
KOKKOS_INLINE_FUNCTION void forward_tile(const Team& team, const HeadTask<T, O>& p, Count tiles) {
  const TileSizes& s = p.sizes;
  const Count first = team.index() % tiles * s.tile, h = team.index() / tiles % p.heads, b = team.index() / tiles / p.heads;
  const int count = p.rows_of_tile(first, p.queries);
  const WeightDropout dropout(p.dropout, b, p.heads, h, p.tokens);
  float* q = team.scratch();
  float* out = q + s.rows();
  float* kv = out + s.rows();  // keys, then values
  float* scores = kv + (s.rows() > s.columns() ? s.rows() : s.columns());
  float* most = scores + s.square();
  float* sum = most + s.tile;
  float* keep = sum + s.tile;
  load_rows(team, s, q, p.q.row(b, first, h, p.head_size), p.q.row_stride, count);
  clear(team, out, s.rows());
  team.each(s.tile, [=](int i) {
    most[i] = -std::numeric_limits<float>::infinity();
    sum[i] = 0.0f;
  });
  const Count visible = p.visible_keys(first + count - 1);
  for (Count key = p.hidden_keys(b, first); key < visible; key += s.tile) {
    const int width = p.rows_of_tile(key, visible);
    load_columns(team, s, kv, p.k.row(b, key, h / p.group, p.head_size), p.k.row_stride, width);
    team.barrier();
    team_product<Tiles::kRows, Tiles::kColumns>(
        team, s.tile, width, s.head_size, [=](int i, int d) { return q[i * s.wide + d]; },
        [=](int d, int j) { return kv[d * s.tall + j]; },
        [&](int i, int j, float value) { scores[i * s.tall + j] = value * p.scale; });
    team.barrier();
    load_rows(team, s, kv, p.v.row(b, key, h / p.group, p.head_size), p.v.row_stride, width);
    team.each(s.tile, [&](int i) {
      online_softmax_row<Tiles>(p, dropout, b, first + i, key, width, scores + i * s.tall, most[i], sum[i], keep[i]);
    });
    team.barrier();
    team_product<Tiles::kRows, Tiles::kColumns>(
        team, s.tile, s.head_size, width, [=](int i, int j) { return scores[i * s.tall + j]; },
        [=](int j, int d) { return kv[j * s.wide + d]; },
        [&](int i, int d, float value) { out[i * s.wide + d] = out[i * s.wide + d] * keep[i] + value; });
    team.barrier();
  }
  team.barrier();
  team.each(count * s.head_size, [&](int e) {
    const int i = e / s.head_size, d = e % s.head_size;
    p.out.row(b, first + i, h, p.head_size)[d] = from_float<O>(sum[i] == 0.0f ? 0.0f : out[i * s.wide + d] / sum[i]);
  });
  team.each(count, [&](int i) {
    p.lse_of(b, h)[first + i] = sum[i] == 0.0f ? -std::numeric_limits<float>::infinity() : most[i] + std::log(sum[i]);
  });
}

// What both kernels of backward hold of a tile of queries.
struct QueryTile {
  float *q, *dout, *lse, *delta;  // delta: each row's sum of dout * out
};

template <class T, class O>
KOKKOS_INLINE_FUNCTION void load_queries(const Team& team, const HeadTask<T, O>& p, const QueryTile& tile, Count b, Count h,
                                         Count first, int count) {
  load_rows(team, p.sizes, tile.q, p.q.row(b, first, h, p.head_size), p.q.row_stride, count);
  load_rows(team, p.sizes, tile.dout, p.dout.row(b, first, h, p.head_size), p.dout.row_stride, count);
  team.each(count, [&](int i) {
    const T* dout = p.dout.row(b, first + i, h, p.head_size);
    const T* out = p.final_out.row(b, first + i, h, p.head_size);
    float sum = 0.0f;
    for (int d = 0; d < p.sizes.head_size; ++d) sum += to_float(dout[d]) * to_float(out[d]);
    tile.delta[i] = sum;
    tile.lse[i] = p.lse_of(b, h)[first + i];
  });
}

// For a tile of `count` queries against one of keys, whose columns are in `keys` and `values`: weights (with dropout), if not
// null, and ds, the gradients with respect to the unscaled scores times the scale. Ends with a barrier.
template <class Tiles, class T, class O>
KOKKOS_INLINE_FUNCTION void score_gradients(const Team& team, const HeadTask<T, O>& p, const WeightDropout& dropout,
                                            const QueryTile& tile, const float* keys, const float* values, Count b, Count query,
                                            int count, Count key, float* weights, float* ds) {
  const TileSizes& s = p.sizes;
  // Both products hand element (i, j) to the same thread, which finds in ds what it left there.
  team_product<Tiles::kRows, Tiles::kColumns>(
      team, s.tile, s.tile, s.head_size, [=](int i, int d) { return tile.q[i * s.wide + d]; },
      [=](int d, int j) { return keys[d * s.tall + j]; },
      [&](int i, int j, float value) { ds[i * s.tall + j] = value * p.scale; });
  team_product<Tiles::kRows, Tiles::kColumns>(
      team, s.tile, s.tile, s.head_size, [=](int i, int d) { return tile.dout[i * s.wide + d]; },
      [=](int d, int j) { return values[d * s.tall + j]; },
      [&](int i, int j, float value) {
        float& element = ds[i * s.tall + j];
        const bool seen = i < count && key + j < p.visible_keys(query + i) && key + j >= p.hidden_keys(b, query + i);
        const float weight = seen ? fast_exp(element - tile.lse[i]) : 0.0f;
        const float factor = seen && dropout.active() ? dropout.factor(p.first_query + query + i, p.first_key + key + j) : 1.0f;
        element = seen ? weight * (value * factor - tile.delta[i]) * p.scale : 0.0f;
        if (weights != nullptr) weights[i * s.tall + j] = weight * factor;
      });
  team.barrier();
}

template <class Tiles, class T, class O>
KOKKOS_INLINE_FUNCTION void backward_queries_tile(const Team& team, const HeadTask<T, O>& p, Count tiles) {
  const TileSizes& s = p.sizes;
  const Count first = team.index() % tiles * s.tile, h = team.index() / tiles % p.heads, b = team.index() / tiles / p.heads;
  const int count = p.rows_of_tile(first, p.queries);
  const WeightDropout dropout(p.dropout, b, p.heads, h, p.tokens);
  const QueryTile tile{team.scratch(), team.scratch() + s.rows(), team.scratch() + 2 * s.rows(),
                       team.scratch() + 2 * s.rows() + s.tile};
  float* dq = tile.delta + s.tile;
  float* keys = dq + s.rows();
  float* keys_across = keys + s.rows();
  float* values_across = keys_across + s.columns();
  float* ds = values_across + s.columns();
  load_queries(team, p, tile, b, h, first, count);
  clear(team, dq, s.rows());
  const Count visible = p.visible_keys(first + count - 1);
  for (Count key = p.hidden_keys(b, first); key < visible; key += s.tile) {
    const int width = p.rows_of_tile(key, visible);
    const T* k = p.k.row(b, key, h / p.group, p.head_size);
    load_rows(team, s, keys, k, p.k.row_stride, width);
    load_columns(team, s, keys_across, k, p.k.row_stride, width);
    load_columns(team, s, values_across, p.v.row(b, key, h / p.group, p.head_size), p.v.row_stride, width);
    team.barrier();
    score_gradients<Tiles>(team, p, dropout, tile, keys_across, values_across, b, first, count, key, nullptr, ds);
    team_product<Tiles::kRows, Tiles::kColumns>(
        team, s.tile, s.head_size, width, [=](int i, int j) { return ds[i * s.tall + j]; },
        [=](int j, int d) { return keys[j * s.wide + d]; }, [&](int i, int d, float value) { dq[i * s.wide + d] += value; });
    team.barrier();
  }
  team.barrier();
  store_rows(team, s, dq, p.dq.row(b, first, h, p.head_size), p.dq.row_stride, count, p.add);
}

template <class Tiles, class T, class O>
KOKKOS_INLINE_FUNCTION void backward_keys_tile(const Team& team, const HeadTask<T, O>& p, Count tiles) {
  const TileSizes& s = p.sizes;
  const Count kv_heads = p.heads / p.group;
  const Count first = team.index() % tiles * s.tile, kv = team.index() / tiles % kv_heads, b = team.index() / tiles / kv_heads;
  const int width = p.rows_of_tile(first, p.keys);
  const QueryTile tile{team.scratch(), team.scratch() + s.rows(), team.scratch() + 2 * s.rows(),
                       team.scratch() + 2 * s.rows() + s.tile};
  float* dk = tile.delta + s.tile;
  float* dv = dk + s.rows();
  float* keys_across = dv + s.rows();
  float* values_across = keys_across + s.columns();
  float* weights = values_across + s.columns();
  float* ds = weights + s.square();
  load_columns(team, s, keys_across, p.k.row(b, first, kv, p.head_size), p.k.row_stride, width);
  load_columns(team, s, values_across, p.v.row(b, first, kv, p.head_size), p.v.row_stride, width);
  clear(team, dk, s.rows());
  clear(team, dv, s.rows());
  const Count hidden = p.first_key + first - p.first_query;  // queries before it see none of these keys
  for (Count h = kv * p.group; h < (kv + 1) * p.group; ++h) {
    const WeightDropout dropout(p.dropout, b, p.heads, h, p.tokens);
    for (Count query = hidden <= 0 ? 0 : hidden / s.tile * s.tile; query < p.queries; query += s.tile) {
      if (p.hidden_keys(b, query) >= first + width) break;  // these and later queries are of later documents
      const int count = p.rows_of_tile(query, p.queries);
      load_queries(team, p, tile, b, h, query, count);
      team.barrier();
      score_gradients<Tiles>(team, p, dropout, tile, keys_across, values_across, b, query, count, first, weights, ds);
      team_product<Tiles::kRows, Tiles::kColumns>(
          team, s.tile, s.head_size, count, [=](int j, int i) { return ds[i * s.tall + j]; },
          [=](int i, int d) { return tile.q[i * s.wide + d]; }, [&](int j, int d, float value) { dk[j * s.wide + d] += value; });
      team_product<Tiles::kRows, Tiles::kColumns>(
          team, s.tile, s.head_size, count, [=](int j, int i) { return weights[i * s.tall + j]; },
          [=](int i, int d) { return tile.dout[i * s.wide + d]; },
          [&](int j, int d, float value) { dv[j * s.wide + d] += value; });
      team.barrier();
    }
  }
  team.barrier();
  store_rows(team, s, dk, p.dk.row(b, first, kv, p.head_size), p.dk.row_stride, width, p.add);
  store_rows(team, s, dv, p.dv.row(b, first, kv, p.head_size), p.dv.row_stride, width, p.add);
}

template <class Tiles, class T, class O>
void launch_forward(const Exec& exec, const HeadTask<T, O>& p) {
  const Count tiles = p.tiles_of(p.queries);
  for_teams(
      exec, "cohort::attention_forward", p.batch * p.heads * tiles, Tiles::kThreads, p.sizes.floats(false),
      KOKKOS_LAMBDA(const Team& team) { forward_tile<Tiles>(team, p, tiles); });
}

template <class Tiles, class T, class O>
void launch_backward(const Exec& exec, const HeadTask<T, O>& p) {
  const Count query_tiles = p.tiles_of(p.queries), key_tiles = p.tiles_of(p.keys);
  for_teams(
      exec, "cohort::attention_backward_queries", p.batch * p.heads * query_tiles, Tiles::kThreads, p.sizes.floats(true),
      KOKKOS_LAMBDA(const Team& team) { backward_queries_tile<Tiles>(team, p, query_tiles); });
  for_teams(
      exec, "cohort::attention_backward_keys", p.batch * p.heads / p.group * key_tiles, Tiles::kThreads, p.sizes.floats(true),
      KOKKOS_LAMBDA(const Team& team) { backward_keys_tile<Tiles>(team, p, key_tiles); });
}

template <class T, class O>
void forward_of_types(const Exec& exec, const AttentionTask& task) {
  if (exec.gpu()) return launch_forward<GpuAttentionTiles>(exec, head_task<GpuAttentionTiles, T, O>(task, false));
  launch_forward<HostAttentionTiles>(exec, head_task<HostAttentionTiles, T, O>(task, false));
}

template <class T, class O>
void backward_of_types(const Exec& exec, const AttentionTask& task) {
  if (exec.gpu()) return launch_backward<GpuAttentionTiles>(exec, head_task<GpuAttentionTiles, T, O>(task, true));
  launch_backward<HostAttentionTiles>(exec, head_task<HostAttentionTiles, T, O>(task, true));
}

}  // namespace

void portable_attention_forward(const Exec& exec, const AttentionTask& task) {
  if (counting()) return;
  with_storage_type(Tensor::wrap(task.q.data, {1}, task.q.dtype), [&]<class T>(T) {
    if (task.out.dtype == task.q.dtype) return forward_of_types<T, T>(exec, task);
    forward_of_types<T, float>(exec, task);
  });
}

void portable_attention_backward(const Exec& exec, const AttentionTask& task) {
  if (counting()) return;
  with_storage_type(Tensor::wrap(task.q.data, {1}, task.q.dtype), [&]<class T>(T) {
    if (task.dq.dtype == task.q.dtype) return backward_of_types<T, T>(exec, task);
    backward_of_types<T, float>(exec, task);
  });
}

}  // namespace cohort::ops
