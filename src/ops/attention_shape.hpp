// The sizes of an attention problem, in a header of their own so that GPU sources can have them without the tensor.
#pragma once

#include "base/units.hpp"

namespace cohort::ops {

struct AttentionShape {
  Count batch;      // B
  Count tokens;     // T
  Count heads;      // NH
  Count kv_heads;   // NKV
  Count head_size;  // HS

  Count width() const { return heads * head_size; }                          // C
  Count packed_width() const { return (heads + 2 * kv_heads) * head_size; }  // row of qkv
};

}  // namespace cohort::ops
