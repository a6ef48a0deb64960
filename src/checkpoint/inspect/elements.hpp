// The elements of a tensor as numbers, whatever their type.
#pragma once

#include <cstdint>

#include "base/error.hpp"
#include "tensor/tensor.hpp"

namespace cohort {

/// Calls body(value) for every element of a tensor in host memory, in row-major order, with the value as a double. int64 is
/// rounded beyond 2^53.
template <class Body>
void for_each_element(const Tensor& tensor, const Body& body) {
  const auto visit = [&]<class T>(T) {
    for (const T element : tensor.span<T>()) {
      if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, f16>) {
        body(static_cast<double>(to_float(element)));
      } else {
        body(static_cast<double>(element));
      }
    }
  };
  switch (tensor.dtype()) {
    case DType::f32:
      return visit(float{});
    case DType::bf16:
      return visit(bf16{});
    case DType::f16:
      return visit(f16{});
    case DType::f64:
      return visit(double{});
    case DType::i32:
      return visit(std::int32_t{});
    case DType::i64:
      return visit(std::int64_t{});
    case DType::u8:
      return visit(std::uint8_t{});
  }
}

}  // namespace cohort
