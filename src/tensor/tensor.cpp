#include "tensor/tensor.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstring>

#include "base/counting.hpp"
#include "base/counting_listener.hpp"
#include "base/huge_pages.hpp"
#include "gpu/device.hpp"
#include "tensor/counting_scope.hpp"
#include "tensor/memory_account.hpp"
#include "tensor/memory_report.hpp"

namespace cohort {

namespace {

// At least one byte, so that a tensor without elements is still defined.
Bytes bytes_of(const Shape& shape, DType dtype) { return std::max<Bytes>(1, shape.elements() * size_of(dtype)); }

std::shared_ptr<void> host_memory(const std::string& label, Bytes bytes) {
  using Memory = Kokkos::View<std::byte*, Kokkos::HostSpace>;
  // Kokkos would set bytes to zero one by one.
  const auto memory = std::make_shared<Memory>(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), bytes);
  prefer_huge_pages(memory->data(), bytes);
  return {memory, memory->data()};  // shares ownership of the View, points to its memory
}

std::shared_ptr<void> device_memory(const std::string& label, Bytes bytes) {
  try {
    return {gpu::allocate(bytes, label), gpu::release};
  } catch (const Error& error) {
    if (error.code() != ExitCode::memory) throw;
    fail(ExitCode::memory, "{}. {}", error.what(), describe(device_memory_report(/*try_largest=*/true)));
  }
}

// The same memory, in the account of memory (memory_account.hpp) until its last owner is gone.
std::shared_ptr<void> counted(std::shared_ptr<void> memory, const std::string& label, DeviceKind device, Bytes bytes) {
  void* const data = memory.get();
  count_memory(label, device, bytes);
  return {data, [memory = std::move(memory), label, device, bytes](void*) mutable {
            memory.reset();
            count_memory(label, device, -bytes);
          }};
}

}  // namespace

Tensor Tensor::zeros(const std::string& label, const Shape& shape, DType dtype, DeviceKind device) {
  Tensor tensor;
  tensor.shape_ = shape;
  tensor.dtype_ = dtype;
  tensor.device_ = device;
  const Bytes bytes = bytes_of(shape, dtype);
  if (counting()) {
    tensor.owner_ = counted(counted_memory(bytes), label, device, bytes);
    tensor.data_ = tensor.owner_.get();
    return tensor;
  }
  if (device == DeviceKind::gpu) {
    tensor.owner_ = counted(device_memory(label, bytes), label, device, bytes);
    tensor.data_ = tensor.owner_.get();
    gpu::zero_async(tensor.data_, bytes, gpu::compute_stream());
    return tensor;
  }
  try {
    tensor.owner_ = counted(host_memory("cohort::" + label, bytes), label, device, bytes);
  } catch (const std::exception& error) {
    fail(ExitCode::memory, "out of memory: {} bytes for {} {} of shape {} ({})", bytes, name_of(dtype), label, shape.str(),
         error.what());
  }
  tensor.data_ = tensor.owner_.get();
  std::memset(tensor.data_, 0, static_cast<std::size_t>(bytes));
  return tensor;
}

Tensor Tensor::pinned(const std::string& label, const Shape& shape, DType dtype) {
  if (counting() || !gpu::is_open()) return zeros(label, shape, dtype);
  const Bytes bytes = bytes_of(shape, dtype);
  Tensor tensor = wrap(gpu::allocate_pinned(bytes, label), shape, dtype);
  tensor.owner_ = counted(std::shared_ptr<void>(tensor.data_, gpu::release_pinned), label, DeviceKind::cpu, bytes);
  std::memset(tensor.data_, 0, static_cast<std::size_t>(bytes));
  return tensor;
}

Tensor Tensor::wrap(void* data, const Shape& shape, DType dtype, DeviceKind device) {
  Tensor tensor;
  tensor.data_ = data;
  tensor.shape_ = shape;
  tensor.dtype_ = dtype;
  tensor.device_ = device;
  return tensor;
}

Tensor Tensor::reshaped(const Shape& shape) const {
  COHORT_CHECK(shape.elements() == elements(), "{} cannot be seen as {}", shape_.str(), shape.str());
  Tensor tensor = *this;
  tensor.shape_ = shape;
  return tensor;
}

Tensor Tensor::slice(Count begin, Count end) const {
  COHORT_CHECK(shape_.dims() > 0 && 0 <= begin && begin <= end && end <= shape_[0], "rows {} to {} of {}", begin, end,
               shape_.str());
  Tensor tensor = *this;
  std::vector<Count> dims = shape_.vector();
  const Count row_elements = shape_[0] == 0 ? 0 : elements() / shape_[0];
  dims[0] = end - begin;
  tensor.shape_ = Shape(dims);
  tensor.data_ = static_cast<std::byte*>(data_) + begin * row_elements * size_of(dtype_);
  return tensor;
}

void Tensor::zero() const {
  if (counting()) return note_traffic("zero", dtype_, bytes());
  if (on_host()) {
    std::memset(data_, 0, static_cast<std::size_t>(bytes()));
  } else {
    gpu::zero_async(data_, bytes(), gpu::compute_stream());
  }
}

void Tensor::copy_from(const Tensor& other) const {
  COHORT_CHECK(other.shape() == shape_ && other.dtype() == dtype_, "copy of {} {} into {} {}", name_of(other.dtype()),
               other.shape().str(), name_of(dtype_), shape_.str());
  if (counting()) return note_traffic("copy", dtype_, 2 * bytes());
  if (on_host() && other.on_host()) {
    std::memcpy(data_, other.raw(), static_cast<std::size_t>(bytes()));
  } else if (!on_host() && !other.on_host()) {
    gpu::copy_async(data_, other.raw(), bytes(), gpu::compute_stream());
  } else {
    gpu::copy(data_, other.raw(), bytes());
  }
}

Tensor Tensor::to(DeviceKind device, const std::string& label) const {
  if (device == device_) return *this;
  const Tensor copy = zeros(label, shape_, dtype_, device);
  copy.copy_from(*this);
  return copy;
}

Tensor Tensor::to_host() const { return to(DeviceKind::cpu, "host copy"); }

}  // namespace cohort
