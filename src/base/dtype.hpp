// Element types, and the two 16-bit floating-point formats as storage types. Arithmetic is always done in fp32.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>

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

// Conversions: constexpr, so that they also work in device code. To 16 bits: round to nearest, ties to even; NaN stays NaN,
// overflow becomes infinity.

constexpr float to_float(float value) { return value; }
constexpr float to_float(bf16 value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16); }
constexpr float to_float(f16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = value.bits & 0x3ffu;
  if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {  // subnormal: steps of 2^-24
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(static_cast<float>(mantissa) * 0x1.0p-24f));
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

constexpr bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return {static_cast<std::uint16_t>((bits >> 16) | 0x0040u)};  // keep it a quiet NaN
  const std::uint32_t round = 0x7fffu + ((bits >> 16) & 1u);
  return {static_cast<std::uint16_t>((bits + round) >> 16)};
}
constexpr f16 to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t absolute = bits & 0x7fffffffu;
  const auto magnitude = std::bit_cast<float>(absolute);
  if (value != value) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 65520.0f) return {static_cast<std::uint16_t>(sign | 0x7c00u)};  // 65520 rounds to infinity
  if (magnitude < 0x1.0p-14f) {                                                    // subnormal: steps of 2^-24
    constexpr float kRound = 0x1.0p23f;  // the sum's last bit is worth 1: adding it rounds to a whole number
    const float steps = (magnitude * 0x1.0p24f + kRound) - kRound;
    return {static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(steps))};
  }
  const std::uint32_t round = 0xfffu + ((absolute >> 13) & 1u);
  return {static_cast<std::uint16_t>(sign | ((absolute + round - (112u << 23)) >> 13))};
}

/// To a storage type: from_float<bf16>(x).
template <class T>
constexpr T from_float(float value) {
  if constexpr (std::is_same_v<T, bf16>) {
    return to_bf16(value);
  } else if constexpr (std::is_same_v<T, f16>) {
    return to_f16(value);
  } else {
    return static_cast<T>(value);
  }
}

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
