// The sizes of an attention problem and which keys its queries see, in a header of their own so that GPU sources can have them
// without the tensor.
#pragma once

#include <cstdint>

#include "base/units.hpp"

namespace cohort::ops {

struct AttentionShape {
  Count batch;      // B
  Count tokens;     // T
  Count heads;      // NH
  Count kv_heads;   // NKV
  Count head_size;  // HS
  // Where samples are packed with documents that do not see each other: [B, T], where the op runs, the position of the first
  // token of each token's document. A token sees the keys from there up to itself. In a sample these ascend or stay, from 0 on,
  // and none is beyond its own position. Null: a sample is one document.
  const std::int32_t* first_keys = nullptr;

  Count width() const { return heads * head_size; }                          // C
  Count packed_width() const { return (heads + 2 * kv_heads) * head_size; }  // row of qkv
};

}  // namespace cohort::ops
