#include "nn/kv_cache.hpp"

#include <algorithm>
#include <numeric>

namespace cohort {

KvCache::KvCache(const KvCacheSizes& sizes, DType dtype, DeviceKind device) : sizes_(sizes) {
  COHORT_CHECK(sizes.slots > 0 && sizes.tokens > 0, "a cache of {} slots of {} tokens", sizes.slots, sizes.tokens);
  const Shape shape{sizes.slots, sizes.kv_heads, sizes.tokens, sizes.head_size};
  for (Count layer = 0; layer < sizes.layers; ++layer)
    layers_.push_back(
        {Tensor::zeros("kv_cache.keys", shape, dtype, device), Tensor::zeros("kv_cache.values", shape, dtype, device)});
  places_ = Tensor::zeros("kv_cache.places", {2, 1}, DType::i32, device);
}

void KvCache::begin_prompt(Count slot, Count tokens) {
  const std::vector<std::int32_t> slots(static_cast<std::size_t>(tokens), static_cast<std::int32_t>(slot));
  std::vector<std::int32_t> positions(static_cast<std::size_t>(tokens));
  std::iota(positions.begin(), positions.end(), 0);
  begin_tokens(slots, positions);
  prompt_ = true;
}

void KvCache::begin_tokens(std::span<const std::int32_t> slots, std::span<const std::int32_t> positions) {
  COHORT_CHECK(!slots.empty() && slots.size() == positions.size(), "{} slots and {} positions", slots.size(), positions.size());
  const auto rows = static_cast<Count>(slots.size());
  const Tensor host = Tensor::zeros("kv_cache.places", {2, rows}, DType::i32);
  for (Count r = 0; r < rows; ++r) {
    const std::int32_t slot = slots[static_cast<std::size_t>(r)], position = positions[static_cast<std::size_t>(r)];
    COHORT_CHECK(slot >= 0 && slot < sizes_.slots && position >= 0 && position < sizes_.tokens,
                 "slot {}, position {} of a cache of {} slots of {} tokens", slot, position, sizes_.slots, sizes_.tokens);
    host.data<std::int32_t>()[r] = slot;
    host.data<std::int32_t>()[rows + r] = position;
  }
  if (places_.shape()[1] != rows) places_ = Tensor::zeros("kv_cache.places", host.shape(), DType::i32, places_.device());
  places_.copy_from(host);
  longest_ = *std::max_element(positions.begin(), positions.end()) + 1;
  prompt_ = false;
}

ops::CachePlaces KvCache::places() const {
  const auto rows = static_cast<std::size_t>(places_.shape()[1]);
  const auto* const first = static_cast<const std::int32_t*>(places_.raw());
  return {{first, rows}, {first + rows, rows}, longest_};
}

void KvCache::copy_slot(Count to, Count from) const {
  for (const ops::CachedHeads& layer : layers_) {
    layer.keys.slice(to, to + 1).copy_from(layer.keys.slice(from, from + 1));
    layer.values.slice(to, to + 1).copy_from(layer.values.slice(from, from + 1));
  }
}

Bytes KvCache::bytes_per_token() const {
  return layers_.empty() ? 0 : 2 * sizes_.layers * sizes_.kv_heads * sizes_.head_size * size_of(layers_.front().keys.dtype());
}

}  // namespace cohort
