// What the 16-bit flash attention kernels do where samples are packed with documents that do not see each other.
#pragma once

#include <type_traits>

#include "ops/cuda/attention/flash_attention_common.cuh"
#include "ops/cuda/attention/flash_attention_tiles.cuh"

namespace cohort::ops::cuda::flash {

/// The first keys that the 32 queries of a warp from `query` on see. Without documents it knows nothing and costs nothing.
template <bool kDocuments>
struct OwnDocuments {
  __device__ OwnDocuments(const Documents&, const Sizes&, int, int) {}
  __device__ bool reach(int) const { return true; }
  template <class Scores>
  __device__ void hide_earlier_keys(Scores&, int) const {}
};

template <>
struct OwnDocuments<true> {
  int first[2][2];     // of this lane's rows
  int earliest, last;  // of the warp's first and last row

  __device__ OwnDocuments(const Documents& documents, const Sizes& s, int b, int query)
      : earliest(documents.hidden_keys(s, b, query)), last(documents.hidden_keys(s, b, min(query + 32, s.queries) - 1)) {
#pragma unroll
    for (int row = 0; row < 4; ++row) first[row / 2][row % 2] = documents.hidden_keys(s, b, query + 8 * row + lane_id() / 4);
  }

  /// Whether some query sees keys before `end`.
  __device__ bool reach(int end) const { return earliest < end; }
  /// Of the tile of keys from `key` on.
  template <class Scores>
  __device__ void hide_earlier_keys(Scores& scores, int key) const {
    if (last > key) hide_earlier(scores, first, key);
  }
};

/// Calls f(drops, packed), packed with documents, with std::true_type or std::false_type each.
template <class F>
void with_variant(const FlashDropout& dropout, const Documents& documents, const F& f) {
  const auto with_dropout = [&](auto drops) {
    if (documents.first_keys != nullptr) {
      f(drops, std::true_type{});
    } else {
      f(drops, std::false_type{});
    }
  };
  if (dropout.threshold != 0) {
    with_dropout(std::true_type{});
  } else {
    with_dropout(std::false_type{});
  }
}

}  // namespace cohort::ops::cuda::flash
