#include "tensor/buffer_pool.hpp"

#include <algorithm>

#include "tensor/memory_account.hpp"

namespace cohort {

std::vector<Tensor>::const_iterator BufferPool::find(Count elements, DType dtype) const {
  return std::find_if(free_.begin(), free_.end(),
                      [&](const Tensor& tensor) { return tensor.elements() == elements && tensor.dtype() == dtype; });
}

bool BufferPool::has(Count elements, DType dtype) const { return find(elements, dtype) != free_.end(); }

Tensor BufferPool::take(Count elements, DType dtype) {
  const auto found = find(elements, dtype);
  in_use_ += elements * size_of(dtype);
  if (in_use_ > peak_in_use_) {
    count_used_memory(label_, device_, in_use_ - peak_in_use_);
    peak_in_use_ = in_use_;
  }
  if (found == free_.end()) {
    bytes_ += elements * size_of(dtype);
    return pinned_ ? Tensor::pinned(label_, {elements}, dtype) : Tensor::zeros(label_, {elements}, dtype, device_);
  }
  const Tensor tensor = *found;  // NOLINT(performance-unnecessary-copy-initialization): erased next
  free_.erase(found);
  return tensor;
}

void BufferPool::reserve(Count count, Count elements, DType dtype) {
  std::vector<Tensor> taken;
  while (static_cast<Count>(taken.size()) < count) taken.push_back(take(elements, dtype));
  for (const Tensor& tensor : taken) give_back(tensor);
}

void BufferPool::give_back(const Tensor& tensor) {
  in_use_ -= tensor.elements() * size_of(tensor.dtype());
  free_.push_back(tensor);
}

}  // namespace cohort
