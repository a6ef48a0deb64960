// A tensor: a row-major, contiguous block of elements of a runtime dtype, in host memory (a Kokkos View) or on the GPU of this
// process. Copies share the memory. The View is hidden in tensor.cpp, so that what only passes tensors around does not compile
// Kokkos's headers.
//
// What is done to device memory (zero, copy_from, ops) is put on the compute stream; the host does not wait, except in to_host
// and in copies from and to host memory. While the thread counts (base/counting.hpp) large tensors have no memory, and nothing is
// set to zero or copied.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/device_kind.hpp"
#include "base/dtype.hpp"
#include "base/shape.hpp"

namespace cohort {

class Tensor {
 public:
  Tensor() = default;  // no memory: defined() is false

  /// Owns zeroed memory. `label` is what Kokkos tools show; it gets the prefix "cohort::".
  static Tensor zeros(const std::string& label, const Shape& shape, DType dtype = DType::f32,
                      DeviceKind device = DeviceKind::cpu);
  /// The same in memory of the host that the GPU copies from and to while the host continues (pinned); in plain memory of the
  /// host if the process has no GPU.
  static Tensor pinned(const std::string& label, const Shape& shape, DType dtype = DType::f32);
  /// Somebody else's memory, which must outlive the tensor.
  static Tensor wrap(void* data, const Shape& shape, DType dtype = DType::f32, DeviceKind device = DeviceKind::cpu);

  bool defined() const { return data_ != nullptr; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  DeviceKind device() const { return device_; }
  bool on_host() const { return device_ == DeviceKind::cpu; }
  Count elements() const { return shape_.elements(); }
  Bytes bytes() const { return elements() * size_of(dtype_); }

  /// Typed access; a wrong type is a bug and throws.
  template <class T>
  T* data() const {
    COHORT_CHECK(dtype_ == dtype_of<T>, "a {} tensor was read as {}", name_of(dtype_), name_of(dtype_of<T>));
    return static_cast<T*>(data_);
  }
  float* f32() const { return data<float>(); }
  void* raw() const { return data_; }
  /// The elements for the host to read and write; a device tensor throws.
  template <class T>
  std::span<T> span() const {
    COHORT_CHECK(on_host(), "the host cannot reach a tensor of shape {} on the device", shape_.str());
    return {data<T>(), static_cast<std::size_t>(elements())};
  }

  /// The same elements under another shape of as many elements.
  Tensor reshaped(const Shape& shape) const;
  /// Rows [begin, end) of the first dim; shares the memory.
  Tensor slice(Count begin, Count end) const;
  /// Sets every element to zero.
  void zero() const;
  /// Copies the elements of a tensor of the same shape and dtype, from whatever device.
  void copy_from(const Tensor& other) const;
  /// Itself if on the host, else a copy there.
  Tensor to_host() const;
  /// Itself if on that device, else a copy there.
  Tensor to(DeviceKind device, const std::string& label) const;

 private:
  std::shared_ptr<void> owner_;  // keeps the View alive; empty for wrapped memory
  void* data_ = nullptr;
  Shape shape_;
  DType dtype_ = DType::f32;
  DeviceKind device_ = DeviceKind::cpu;
};

}  // namespace cohort
