// The inner loops of attention on the CPU: one head of one sample in fp32, a run of queries against a run of keys. Whole causal
// attention (attention.cpp) and a block of it (partial_attention.cpp) are both made of them; neither file is for anybody else.
//
// Query i, at position first_query + i, sees key j, at position first_key + j, if that position is not beyond its own and not
// before its document. So the same loops serve keys that all lie before the queries, keys that lie beside them (the causal
// triangle), and keys that lie behind.
#pragma once

#include <algorithm>

#include "ops/attention_shape.hpp"
#include "ops/cpu/attention_products.hpp"
#include "ops/gemm.hpp"
#include "ops/host_loop.hpp"
#include "ops/weight_dropout.hpp"

namespace cohort::ops {

// Query rows of one tile of scores. A tile has as many rows and at most as many columns as there are keys: with 64 it stays in
// the second-level cache up to 1024 keys, while the products are still large enough to run near the machine's peak.
inline constexpr Count kQueryTile = 64;

/// Elements from one row of a tile to the next: an odd number of lines of a cache, since rows a power of two of them apart would
/// all want the same places there.
inline constexpr Count tile_stride(Count keys) { return (keys + 31) / 32 * 32 + 16; }

/// Memory that one head needs: two tiles, the weights and their gradients, and the packed keys and values.
inline Count attention_tile_elements(Count queries, Count keys, Count head_size) {
  return 2 * (std::min(kQueryTile, queries) * tile_stride(keys) + packed_key_elements(keys, head_size));
}

/// Memory of this thread, kept and grown: of threads beside the one whose tiles the caller of an op provides.
float* tiles_of_thread(Count elements);

/// body(b, h, tiles) for each query head h of each sample b, on the rank's threads: `together` neighbours one after the other on
/// one thread, as those of one key/value head must be that add to the same gradients. The first thread's tiles are `scratch`, the
/// others have their own. Where there are fewer such groups than threads, one thread takes all, and their products have threads.
template <class Body>
void for_attention_heads(const AttentionShape& s, Count together, float* scratch, Count tile_elements, const Body& body) {
  const auto run = [&](Count begin, Count end, float* tiles) {
    for (Count i = begin * together; i < end * together; ++i) body(i / s.heads, i % s.heads, tiles);
  };
  const Count groups = s.batch * s.heads / together;
  if (groups < host_threads()) return run(0, groups, scratch);
  for_runs(groups,
           [&](Count begin, Count end, int thread) { run(begin, end, thread == 0 ? scratch : tiles_of_thread(tile_elements)); });
}

struct AttentionHead {
  MatrixView q;     // [queries, HS]
  MatrixView k, v;  // [keys, HS]
  Count first_query = 0;
  Count first_key = 0;
  const std::int32_t* first_keys = nullptr;  // [queries], the position at which each one's document begins; null: 0

  /// How many keys, from the first on, query row i sees.
  Count visible_keys(Count i) const { return std::clamp<Count>(first_query + i + 1 - first_key, 0, k.rows); }
  /// How many of these are of documents before that of query row i.
  Count hidden_keys(Count i) const {
    return first_keys == nullptr ? 0 : std::clamp<Count>(first_keys[i] - first_key, 0, visible_keys(i));
  }
};

/// out [queries, HS] = softmax(q k^T / sqrt(HS), causal) v; lse [queries] = the logarithm of each row's softmax denominator. A
/// query that sees no key gets 0 and -infinity. `memory` holds attention_tile_elements.
void attention_head_forward(const Exec& exec, const AttentionHead& head, const MatrixView& out, float* lse, float* memory,
                            const WeightDropout& dropout);

struct AttentionHeadGradients {
  MatrixView dq, dk, dv;
  // Add to what is there; else it is overwritten, for which some query must see the last key.
  bool add_to_queries = false;
  bool add_to_keys = false;
};

/// The gradients of sum(dout * out), where `out` and `lse` [queries] are those of the softmax over all keys that the queries see,
/// here or elsewhere: with delta_i = dout_i . out_i and p_ij = exp(q_i . k_j / sqrt(HS) - lse_i) they need no other key's score
/// (Dao 2023, "FlashAttention-2", section 2.3).
void attention_head_backward(const Exec& exec, const AttentionHead& head, const AttentionHeadGradients& gradients,
                             const MatrixView& dout, const MatrixView& out, const float* lse, float* memory,
                             const WeightDropout& dropout);

}  // namespace cohort::ops
