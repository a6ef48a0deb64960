#include "tensor/buffer_pool.hpp"

#include <algorithm>

namespace cohort {

Tensor BufferPool::take(Count elements, DType dtype) {
  const auto fits = [&](const Tensor& tensor) { return tensor.elements() == elements && tensor.dtype() == dtype; };
  const auto found = std::find_if(free_.begin(), free_.end(), fits);
  if (found == free_.end()) {
    bytes_ += elements * size_of(dtype);
    return Tensor::zeros(label_, {elements}, dtype, device_);
  }
  const Tensor tensor = *found;
  free_.erase(found);
  return tensor;
}

}  // namespace cohort
