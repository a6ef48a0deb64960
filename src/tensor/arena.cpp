#include "tensor/arena.hpp"

#include <algorithm>

#include "base/counting.hpp"
#include "base/counting_listener.hpp"
#include "tensor/counting_scope.hpp"
#include "tensor/memory_account.hpp"

namespace cohort {
namespace {

constexpr Bytes kAlignment = 256;  // of cache lines, vector registers and what matrix products on a GPU like best
constexpr Bytes kSmallestChunk = 4 * kMiB;
constexpr Bytes kEndlessChunk = Bytes{1} << 42;  // while counting

Bytes rounded_up(Bytes bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void Arena::reserve(Bytes bytes) {
  COHORT_CHECK(chunks_.empty(), "arena {} has memory already", label_);
  chunks_.push_back(Tensor::zeros(label_, {rounded_up(bytes)}, DType::u8, device_));
}

// While counting, one chunk without an end: a run whose need is known has one chunk, too.
void Arena::add_chunk(Bytes bytes) {
  if (!counting()) return chunks_.push_back(Tensor::zeros(label_, {std::max(bytes, kSmallestChunk)}, DType::u8, device_));
  // The address belongs to no memory and needs no owner.
  chunks_.push_back(Tensor::wrap(counted_memory(kEndlessChunk).get(), {kEndlessChunk}, DType::u8, device_));
}

void Arena::rewind(Mark mark) {
  position_ = mark;
  CountingListener* const listener = counting_listener();
  if (listener != nullptr && !chunks_.empty()) listener->rewound(chunks_.front().raw(), position_.used);
}

std::vector<Tensor> Arena::in_use() const {
  std::vector<Tensor> parts(chunks_.begin(), chunks_.begin() + static_cast<std::ptrdiff_t>(position_.chunk));
  if (position_.used > 0) parts.push_back(chunks_[position_.chunk].slice(0, position_.used));
  return parts;
}

Tensor Arena::take(const Shape& shape, DType dtype) {
  const Bytes bytes = rounded_up(std::max<Bytes>(1, shape.elements() * size_of(dtype)));
  // The first chunk from here on with room; what is left of the skipped ones stays unused until a rewind.
  while (position_.chunk < chunks_.size() && position_.used + bytes > chunks_[position_.chunk].bytes()) {
    ++position_.chunk;
    position_.used = 0;
  }
  if (position_.chunk == chunks_.size()) add_chunk(bytes);
  Tensor tensor = Tensor::wrap(chunks_[position_.chunk].data<std::uint8_t>() + position_.used, shape, dtype, device_);
  position_.used += bytes;
  Bytes in_use = position_.used;
  for (std::size_t chunk = 0; chunk < position_.chunk; ++chunk) in_use += chunks_[chunk].bytes();
  if (in_use > peak_) {
    count_used_memory(label_, device_, in_use - peak_);
    peak_ = in_use;
  }
  if (CountingListener* const listener = counting_listener())
    listener->taken(label_, chunks_.front().raw(), {tensor.raw(), shape, dtype}, in_use);
  return tensor;
}

}  // namespace cohort
