// The KV cache of text generation: the keys and values of the tokens that a model has seen, so that a pass computes new tokens
// only. It holds those of the layers and heads that are on this rank.
//
// A cache has slots, one for each text. begin_prompt() or begin_tokens() says what the rows of the next pass are. Given the cache
// (StepContext::cache), attention stores the keys and values of the rows, and sees those that were stored before. A row never
// reads positions beyond its own, so a slot needs no clearing.
#pragma once

#include <span>
#include <vector>

#include "ops/cached_attention.hpp"

namespace cohort {

struct KvCacheSizes {
  Count layers = 0;
  Count slots = 0;
  Count tokens = 0;  // positions of a slot
  Count kv_heads = 0;
  Count head_size = 0;
};

class KvCache {
 public:
  KvCache(const KvCacheSizes& sizes, DType dtype, DeviceKind device);

  /// The rows of the next pass are the tokens 0, 1, ... of a slot: attention needs nothing that was kept.
  void begin_prompt(Count slot, Count tokens);
  /// Row r of the next pass is the token at positions[r] of slots[r], each after those that the slot holds.
  void begin_tokens(std::span<const std::int32_t> slots, std::span<const std::int32_t> positions);
  bool prompt() const { return prompt_; }

  /// Where the rows of this pass belong, in memory of the device.
  ops::CachePlaces places() const;
  const ops::CachedHeads& layer(std::size_t index) const { return layers_[index]; }

  /// Slot `to` becomes what slot `from` is.
  void copy_slot(Count to, Count from) const;

  const KvCacheSizes& sizes() const { return sizes_; }
  /// Of keys and values of all layers for one position of one slot.
  Bytes bytes_per_token() const;

 private:
  KvCacheSizes sizes_;
  std::vector<ops::CachedHeads> layers_;
  // [2, most rows of a pass] int32, slots and positions. Their place does not change, so that passes can be recorded.
  Tensor places_, host_places_;
  Count rows_ = 0;  // of this pass
  Count longest_ = 0;
  bool prompt_ = false;
};

}  // namespace cohort
