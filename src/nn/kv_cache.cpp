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
  const Count most_rows = std::max(sizes.slots, sizes.tokens);  // of a pass: a token of each text, or all of a prompt
  places_ = Tensor::zeros("kv_cache.places", {2, most_rows}, DType::i32, device);
  host_places_ = Tensor::pinned("kv_cache.places", places_.shape(), DType::i32);
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
  const Count most_rows = places_.shape()[1];
  COHORT_CHECK(rows <= most_rows, "{} rows of a cache of {} slots of {} tokens", rows, sizes_.slots, sizes_.tokens);
  for (Count r = 0; r < rows; ++r) {
    const std::int32_t slot = slots[static_cast<std::size_t>(r)], position = positions[static_cast<std::size_t>(r)];
    host_places_.data<std::int32_t>()[r] = slot;
    host_places_.data<std::int32_t>()[most_rows + r] = position;
    COHORT_CHECK(slot >= 0 && slot < sizes_.slots && position >= 0 && position < sizes_.tokens,
                 "slot {}, position {} of a cache of {} slots of {} tokens", slot, position, sizes_.slots, sizes_.tokens);
  }
  places_.copy_from(host_places_);
  rows_ = rows;
  longest_ = *std::max_element(positions.begin(), positions.end()) + 1;
  prompt_ = false;
}

ops::CachePlaces KvCache::places() const {
  const auto* const first = static_cast<const std::int32_t*>(places_.raw());
  const auto rows = static_cast<std::size_t>(rows_);
  return {{first, rows}, {first + places_.shape()[1], rows}, longest_};
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
