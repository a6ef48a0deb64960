#include "base/dtype.hpp"

#include <array>
#include <bit>
#include <cmath>

#include "base/error.hpp"

namespace cohort {
namespace {

struct DTypeInfo {
  DType dtype;
  Bytes size;
  std::string_view name;
  bool floating;
};

// In the order of the enumeration.
constexpr std::array<DTypeInfo, 7> kDTypes{{{DType::f32, 4, "fp32", true},
                                            {DType::bf16, 2, "bf16", true},
                                            {DType::f16, 2, "fp16", true},
                                            {DType::f64, 8, "fp64", true},
                                            {DType::i32, 4, "int32", false},
                                            {DType::i64, 8, "int64", false},
                                            {DType::u8, 1, "uint8", false}}};

const DTypeInfo& info(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)]; }

}  // namespace

Bytes size_of(DType dtype) { return info(dtype).size; }
std::string_view name_of(DType dtype) { return info(dtype).name; }
bool is_floating(DType dtype) { return info(dtype).floating; }

DType dtype_from_name(std::string_view name) {
  for (const DTypeInfo& entry : kDTypes) {
    if (entry.name == name) return entry.dtype;
  }
  fail(ExitCode::config, "unknown element type '{}'; known are fp32, bf16, fp16, fp64, int32, int64, uint8", name);
}

float to_float(bf16 value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16); }

bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return {static_cast<std::uint16_t>((bits >> 16) | 0x0040u)};  // keep it a quiet NaN
  const std::uint32_t round = 0x7fffu + ((bits >> 16) & 1u);
  return {static_cast<std::uint16_t>((bits + round) >> 16)};
}

float to_float(f16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = value.bits & 0x3ffu;
  if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0)
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(std::ldexp(static_cast<float>(mantissa), -24)));
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

f16 to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 65520.0f) return {static_cast<std::uint16_t>(sign | 0x7c00u)};  // 65520 rounds to infinity
  if (magnitude < 6.103515625e-05f) {                                              // below 2^-14: subnormal, steps of 2^-24
    return {static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::nearbyint(std::ldexp(magnitude, 24))))};
  }
  const std::uint32_t absolute = bits & 0x7fffffffu;
  const std::uint32_t round = 0xfffu + ((absolute >> 13) & 1u);
  return {static_cast<std::uint16_t>(sign | ((absolute + round - (112u << 23)) >> 13))};
}

}  // namespace cohort
