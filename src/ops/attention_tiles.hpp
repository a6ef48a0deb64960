// What the kernels of portable_attention.cpp are made of: typed views, sizes of tiles, and moves between memory and a team's own.
#pragma once

#include <cmath>

#include "ops/fast_math.hpp"
#include "ops/portable_attention.hpp"
#include "ops/teams.hpp"
#include "ops/weight_dropout.hpp"

namespace cohort::ops {

/// The blocks of team_product, and the longest tile.
struct GpuAttentionTiles {
  static constexpr int kRows = 2, kColumns = 4, kThreads = 128, kLongest = 32;
  static constexpr Count kMostFloats = 12 * 1024 - 32;  // 48 KiB, less what aligning them may take
};
struct HostAttentionTiles {
  static constexpr int kRows = 4, kColumns = 16, kThreads = 1, kLongest = 32;
  static constexpr Count kMostFloats = std::numeric_limits<Count>::max();
};

/// A tile is `tile` queries or keys. It lies in a team's memory by rows, [tile][wide], or by columns, [head_size][tall]; scores
/// are [tile][tall].
struct TileSizes {
  int tile, head_size, wide, tall;

  KOKKOS_INLINE_FUNCTION int rows() const { return tile * wide; }
  KOKKOS_INLINE_FUNCTION int columns() const { return head_size * tall; }
  KOKKOS_INLINE_FUNCTION int square() const { return tile * tall; }
  /// Of a team's memory, for the kernel of forward or for either one of backward.
  Count floats(bool backward) const {
    return backward ? 4 * rows() + 2 * columns() + 2 * square() + 2 * tile
                    : 2 * rows() + std::max(rows(), columns()) + square() + 3 * tile;
  }
};

template <class Tiles>
TileSizes tile_sizes(Count head_size, bool backward) {
  const auto rounded = [](int n) { return (n + Tiles::kColumns - 1) / Tiles::kColumns * Tiles::kColumns; };
  const auto hs = static_cast<int>(head_size);
  for (int tile = Tiles::kLongest; tile >= 4; tile /= 2) {
    const TileSizes sizes{tile, hs, rounded(hs), rounded(tile)};
    if (sizes.floats(backward) <= Tiles::kMostFloats) return sizes;
  }
  fail(ExitCode::config, "heads of {} elements do not fit into a GPU's shared memory with device.kernels = \"portable\"",
       head_size);
}

template <class T>
struct TypedRows {
  T* data;
  Count sample_stride, row_stride;

  KOKKOS_INLINE_FUNCTION T* row(Count b, Count i, Count h, Count head_size) const {
    return data + b * sample_stride + i * row_stride + h * head_size;
  }
};

/// An AttentionTask whose activations are of type T, and whose results are of type O.
template <class T, class O>
struct HeadTask {
  TileSizes sizes;
  Count batch, tokens, heads, group, head_size;  // group: query heads of one key/value head
  Count queries, keys, first_query, first_key;
  float scale;
  TypedRows<const T> q, k, v, dout, final_out;
  TypedRows<O> out, dq, dk, dv;
  float* lse;
  Count lse_stride;
  DropoutKey dropout;
  bool add;
  const std::int32_t* first_keys;  // [batch, tokens], or null

  KOKKOS_INLINE_FUNCTION Count visible_keys(Count query) const {
    const Count seen = first_query + query + 1 - first_key;
    return seen < 0 ? 0 : seen < keys ? seen : keys;
  }
  /// How many keys, from the first on, are of documents before the query's; at most visible_keys.
  KOKKOS_INLINE_FUNCTION Count hidden_keys(Count b, Count query) const {
    if (first_keys == nullptr || query >= queries) return 0;  // a tile may stick out behind the last query
    const Count hidden = first_keys[b * tokens + first_query + query] - first_key, seen = visible_keys(query);
    return hidden < 0 ? 0 : hidden < seen ? hidden : seen;
  }
  KOKKOS_INLINE_FUNCTION int rows_of_tile(Count first, Count all) const {
    return static_cast<int>(all - first < sizes.tile ? all - first : sizes.tile);
  }
  KOKKOS_INLINE_FUNCTION float* lse_of(Count b, Count h) const { return lse + (b * heads + h) * lse_stride; }
  Count tiles_of(Count rows) const { return (rows + sizes.tile - 1) / sizes.tile; }
};

template <class Tiles, class T, class O>
HeadTask<T, O> head_task(const AttentionTask& t, bool backward) {
  const auto read = [](const HeadRows& r) {
    return TypedRows<const T>{static_cast<const T*>(r.data), r.sample_stride, r.row_stride};
  };
  const auto write = [](const HeadRows& r) { return TypedRows<O>{static_cast<O*>(r.data), r.sample_stride, r.row_stride}; };
  const AttentionShape& s = t.shape;
  return {tile_sizes<Tiles>(s.head_size, backward),
          s.batch,
          s.tokens,
          s.heads,
          s.heads / s.kv_heads,
          s.head_size,
          t.queries,
          t.keys,
          t.first_query,
          t.first_key,
          1.0f / std::sqrt(static_cast<float>(s.head_size)),
          read(t.q),
          read(t.k),
          read(t.v),
          read(t.dout),
          read(t.out),
          write(t.out),
          write(t.dq),
          write(t.dk),
          write(t.dv),
          t.lse,
          t.lse_stride,
          t.dropout,
          t.add,
          s.first_keys};
}

/// `count` rows of one head into a tile by rows; zeros behind them.
template <class T>
KOKKOS_INLINE_FUNCTION void load_rows(const Team& team, const TileSizes& s, float* tile, const T* from, Count row_stride,
                                      int count) {
  team.each(s.tile * s.head_size, [=](int e) {
    const int i = e / s.head_size, d = e % s.head_size;
    tile[i * s.wide + d] = i < count ? to_float(from[i * row_stride + d]) : 0.0f;
  });
}

/// The same into a tile by columns.
template <class T>
KOKKOS_INLINE_FUNCTION void load_columns(const Team& team, const TileSizes& s, float* tile, const T* from, Count row_stride,
                                         int count) {
  team.each(s.tile * s.head_size, [=](int e) {
    const int i = e / s.head_size, d = e % s.head_size;
    tile[d * s.tall + i] = i < count ? to_float(from[i * row_stride + d]) : 0.0f;
  });
}

KOKKOS_INLINE_FUNCTION void clear(const Team& team, float* tile, int elements) {
  team.each(elements, [=](int e) { tile[e] = 0.0f; });
}

template <class O>
KOKKOS_INLINE_FUNCTION void store_rows(const Team& team, const TileSizes& s, const float* tile, O* to, Count row_stride,
                                       int count, bool add) {
  team.each(count * s.head_size, [=](int e) {
    const int i = e / s.head_size, d = e % s.head_size;
    O& element = to[i * row_stride + d];
    element = from_float<O>(add ? to_float(element) + tile[i * s.wide + d] : tile[i * s.wide + d]);
  });
}

}  // namespace cohort::ops
