// 8-bit floating point in plain double precision: what a code stands for, and which code is nearest to a number. See ops/fp8.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/fp8.hpp"
#include "ops/reference/array.hpp"

namespace cohort::ops::reference {

/// A sign, then the exponent with its bias, then the mantissa. Codes of sizes above `largest` stand for no number.
struct Fp8Layout {
  int mantissa_bits;
  int bias;
  double largest;
  int largest_code;
  int nan_code;
};

inline Fp8Layout layout_of(Fp8 format) {
  return format == Fp8::e4m3 ? Fp8Layout{3, 7, 448.0, 0x7e, 0x7f} : Fp8Layout{2, 15, 57344.0, 0x7b, 0x7f};
}

/// Infinity for e5m2's two infinities.
inline double fp8_value(Fp8 format, std::uint8_t code) {
  const Fp8Layout layout = layout_of(format);
  const int size = code & 0x7f, mantissa_end = 1 << layout.mantissa_bits;
  const int exponent = size / mantissa_end, mantissa = size % mantissa_end;
  if (size > layout.largest_code) {
    const bool infinite = format == Fp8::e5m2 && size == layout.largest_code + 1;
    return infinite ? std::copysign(std::numeric_limits<double>::infinity(), code & 0x80 ? -1.0 : 1.0)
                    : std::numeric_limits<double>::quiet_NaN();
  }
  // Subnormal: without the leading 1, at the exponent of the smallest normal numbers.
  const int steps = exponent == 0 ? mantissa : mantissa_end + mantissa;
  const double value = std::ldexp(steps, std::max(exponent, 1) - layout.bias - layout.mantissa_bits);
  return code & 0x80 ? -value : value;
}

/// The code of the number nearest to x, of two that are equally near the one whose last bit is 0. What lies beyond the largest
/// becomes the largest. The sign of a NaN is not kept.
inline std::uint8_t fp8_code(Fp8 format, double x) {
  const Fp8Layout layout = layout_of(format);
  if (std::isnan(x)) return static_cast<std::uint8_t>(layout.nan_code);
  const int sign = std::signbit(x) ? 0x80 : 0;
  const double size = std::min(std::abs(x), layout.largest);
  if (size == 0.0) return static_cast<std::uint8_t>(sign);
  const int least = 1 - layout.bias;  // exponent of the smallest normal numbers
  const int exponent = std::max(std::ilogb(size), least);
  // In steps of the last bit. Rounded up to the next power of two, it carries into the exponent, as the code does.
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(size, layout.mantissa_bits - exponent)));
  return static_cast<std::uint8_t>(sign | (((exponent - least) << layout.mantissa_bits) + steps));
}

/// What a product in 8 bits multiplies in x's place: each element times fp8_multiplier(), rounded, and scaled back.
inline Array fp8_rounded(Fp8 format, Input x) {
  double largest = 0.0;
  for (const double value : x) largest = std::isnan(value) || std::abs(value) > largest ? std::abs(value) : largest;
  const auto multiplier = static_cast<double>(fp8_multiplier(format, static_cast<float>(largest)));
  Array rounded;
  for (const double value : x) rounded.push_back(fp8_value(format, fp8_code(format, value * multiplier)) / multiplier);
  return rounded;
}

}  // namespace cohort::ops::reference
