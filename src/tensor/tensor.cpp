#include "tensor/tensor.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstring>

namespace cohort {

Tensor Tensor::zeros(const std::string& label, const Shape& shape, DType dtype) {
  Tensor tensor;
  tensor.shape_ = shape;
  tensor.dtype_ = dtype;
  // At least one byte, so that a tensor without elements is still defined.
  const auto bytes = static_cast<std::size_t>(std::max<Bytes>(1, shape.elements() * size_of(dtype)));
  using Memory = Kokkos::View<std::byte*>;
  try {
    // Kokkos would set bytes to zero one by one.
    const auto memory = std::make_shared<Memory>(Kokkos::view_alloc(Kokkos::WithoutInitializing, "cohort::" + label), bytes);
    tensor.owner_ = memory;
    tensor.data_ = memory->data();
  } catch (const std::exception& error) {
    fail(ExitCode::internal, "out of memory: {} bytes for {} {} of shape {} ({})", bytes, name_of(dtype), label, shape.str(),
         error.what());
  }
  std::memset(tensor.data_, 0, bytes);
  return tensor;
}

Tensor Tensor::wrap(void* data, const Shape& shape, DType dtype) {
  Tensor tensor;
  tensor.data_ = data;
  tensor.shape_ = shape;
  tensor.dtype_ = dtype;
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

void Tensor::zero() const { std::memset(data_, 0, static_cast<std::size_t>(bytes())); }

void Tensor::copy_from(const Tensor& other) const {
  COHORT_CHECK(other.shape() == shape_ && other.dtype() == dtype_, "copy of {} {} into {} {}", name_of(other.dtype()),
               other.shape().str(), name_of(dtype_), shape_.str());
  std::memcpy(data_, other.raw(), static_cast<std::size_t>(bytes()));
}

}  // namespace cohort
