// Element types, and the two 16-bit floating-point formats as storage types. Arithmetic is always done in fp32.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/units.hpp"

namespace cohort {

enum class DType : std::uint8_t { f32, bf16, f16, f64, i32, i64, u8 };

/// Bytes of one element.
Bytes size_of(DType dtype);
/// "fp32", "bf16", "fp16", "fp64", "int32", "int64", "uint8".
std::string_view name_of(DType dtype);
/// The inverse of name_of; throws Error(config) naming the known names.
DType dtype_from_name(std::string_view name);
bool is_floating(DType dtype);

/// bfloat16: the upper half of an fp32. Storage only.
struct bf16 {
  std::uint16_t bits;
};

/// IEEE 754 binary16. Storage only.
struct f16 {
  std::uint16_t bits;
};

float to_float(bf16 value);
float to_float(f16 value);
/// Round to nearest, ties to even; NaN stays NaN, overflow becomes infinity.
bf16 to_bf16(float value);
f16 to_f16(float value);

/// DTypeOf<float>::value == DType::f32, and so on.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<f16> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::u8;
};

template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

}  // namespace cohort
