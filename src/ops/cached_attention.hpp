// Attention of new tokens against a KV cache, which holds the keys and values of the tokens before them: text generation. A row
// of a pass is one new token. Each text has a slot of the cache, and a pass may have any rows of any slots.
//
// The cache of a layer is keys and values [S, NKV, T, HS] each, of the type of the activations: S slots of T positions. The
// positions of a head are contiguous, so that attention reads them as one stream. Keys are kept as attention uses them:
// normalised, and rotated by their absolute positions.
#pragma once

#include <cstdint>
#include <span>

#include "ops/attention_shape.hpp"
#include "ops/exec.hpp"
#include "tensor/tensor.hpp"

namespace cohort::ops {

/// Where the rows of a pass belong: row r is the token at positions[r] of slot slots[r]. Where the activations are: on a GPU
/// device memory, whose content was checked by who put it there.
struct CachePlaces {
  std::span<const std::int32_t> slots, positions;
  Count longest = 0;  // the largest position, and 1

  Count rows() const { return static_cast<Count>(slots.size()); }
};

/// One layer's.
struct CachedHeads {
  Tensor keys, values;  // [S, NKV, T, HS]
};

/// Writes the key and value heads of qkv [R, (NH + 2 NKV) HS] to their places. Of `shape` the numbers of heads and the head size
/// are used, here and below. Moves 4 R NKV HS elements.
void cache_append(const Exec& exec, const AttentionShape& shape, const CachedHeads& cache, const Tensor& qkv,
                  const CachePlaces& places);

/// Positions of a part of the keys (see cached_attention): so many that merging is little work, so few that a text of a thousand
/// tokens gives a GPU a hundred parts of heads for one token.
inline constexpr Count kCachePartKeys = 128;

/// Parts of the longest text.
inline Count parts_of(const CachePlaces& places) { return (places.longest + kCachePartKeys - 1) / kCachePartKeys; }

/// Partial results, for kernels: of part p of head h of row r, entry (r NH + h) parts + p.
struct CachedPartials {
  float* out;   // [entries, HS] sum of weights times values
  float* most;  // [entries] largest score
  float* sum;   // [entries] sum of weights, which are exp(score - most), to whatever base
};
/// Where they lie in cached_attention's scratch memory.
CachedPartials cached_partials(const Tensor& scratch, Count entries, Count head_size);

/// Elements (fp32) of the scratch memory that cached_attention needs: a partial result for each row, head and part of the keys.
Count cached_attention_scratch(const AttentionShape& shape, const CachePlaces& places);

/// out [R, NH HS] = softmax(q k^T / sqrt(HS)) v of the query heads of qkv over the positions of its slot up to its own, which
/// must all have been appended. The keys are taken in parts of fixed length, which many threads can share (on a GPU one text has
/// too few heads to fill it), and the parts' results are then merged, as in FlashAttention's decoding (Dao et al. 2023,
/// "Flash-Decoding"): each row's bits depend on its slot alone. Reads 2 (NH / NKV) NKV HS elements of the cache a position, from
/// memory the first time.
void cached_attention(const Exec& exec, const AttentionShape& shape, const Tensor& out, const Tensor& qkv,
                      const CachedHeads& cache, const CachePlaces& places, const Tensor& scratch);

}  // namespace cohort::ops
