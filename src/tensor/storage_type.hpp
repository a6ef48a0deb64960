// From the runtime dtype of a tensor to a C++ type.
#pragma once

#include "tensor/tensor.hpp"

namespace cohort {

/// Calls body with a value of the storage type of a floating-point tensor: float, bf16 or f16. Any other type is a bug and
/// throws.
template <class Body>
void with_storage_type(const Tensor& tensor, const Body& body) {
  switch (tensor.dtype()) {
    case DType::bf16:
      return body(bf16{});
    case DType::f16:
      return body(f16{});
    default:
      COHORT_CHECK(tensor.dtype() == DType::f32, "no kernel works on {} tensors", name_of(tensor.dtype()));
      return body(float{});
  }
}

}  // namespace cohort
