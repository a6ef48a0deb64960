// Flat tensors that come and go, of few different sizes: what was given back is handed out again. On a GPU allocation would make
// the host wait.
#pragma once

#include <string>
#include <vector>

#include "tensor/tensor.hpp"

namespace cohort {

class BufferPool {
 public:
  BufferPool(std::string label, DeviceKind device) : label_(std::move(label)), device_(device) {}
  /// In host memory that the GPU copies from and to while the host continues (Tensor::pinned).
  static BufferPool pinned(std::string label) {
    BufferPool pool(std::move(label), DeviceKind::cpu);
    pool.pinned_ = true;
    return pool;
  }
  /// Makes tensors, so that `count` of this size and type can be out at once without a new one.
  void reserve(Count count, Count elements, DType dtype);
  /// Whether take() needs no new tensor.
  bool has(Count elements, DType dtype) const;
  /// Contents are undefined.
  Tensor take(Count elements, DType dtype);
  void give_back(const Tensor& tensor);
  /// Of all tensors ever made.
  Bytes bytes() const { return bytes_; }

 private:
  std::vector<Tensor>::const_iterator find(Count elements, DType dtype) const;

  std::string label_;
  DeviceKind device_;
  bool pinned_ = false;
  std::vector<Tensor> free_;
  Bytes bytes_ = 0;
  Bytes in_use_ = 0;
  Bytes peak_in_use_ = 0;
};

}  // namespace cohort
