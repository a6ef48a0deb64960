// The two 8-bit floating-point formats of Micikevicius et al. 2022, "FP8 Formats for Deep Learning", table 1, and how a tensor is
// scaled into them.
//
//   format   exponent, mantissa   largest            smallest normal, subnormal   infinities
//   e4m3     4, 3                 448 = 1.75 2^8     2^-6, 2^-9                   none: beyond the largest is saturated
//   e5m2     5, 2                 57344 = 1.75 2^15  2^-14, 2^-16                 here saturated too
//
// e4m3 is for what forward multiplies, e5m2 for gradients, whose sizes range wider (section 3).
//
// Dynamic scaling: the scale of a tensor follows from its own largest element, which is found in a pass before the one that
// rounds. Delayed scaling (by the largest elements of the last steps, as in NVIDIA's Transformer Engine) saves that pass, but its
// history is a state: it would have to be in checkpoints and the same in every layout, and a spike would saturate. Here what a
// product computes is a function of its operands, as in every other policy.
//
// The scale is a power of two. Rounding to 3 (or 2) bits of mantissa then gives the same value whatever the scale, but for
// elements that become subnormal, some 2^-14 of the largest: so a tensor and its shards, which have largest elements of their
// own, are rounded alike. What it costs is up to one of the exponent's bits of range, no mantissa.
#pragma once

#include <bit>
#include <cstdint>

namespace cohort::ops {

enum class Fp8 : std::uint8_t { e4m3, e5m2 };

constexpr const char* name_of(Fp8 format) { return format == Fp8::e4m3 ? "e4m3" : "e5m2"; }

/// Sizes of products in 8 bits are multiples of it: what cuBLASLt asks for (documentation of cublasLtMatmul, 16-byte alignment).
inline constexpr int kFp8Multiple = 16;

/// The power of two by which a tensor is multiplied before it is rounded: the largest for which its largest size stays within the
/// format. 1 for a tensor of zeros; NaN if `largest` is not finite, so that one such element makes all of the tensor NaN. At most
/// 2^126, whose inverse is a normal fp32.
constexpr float fp8_multiplier(Fp8 format, float largest) {
  const auto bits = std::bit_cast<std::uint32_t>(largest) & 0x7fffffffu;
  if (bits >= 0x7f800000u) return std::bit_cast<float>(0x7fc00000u);
  if (bits == 0) return 1.0f;
  const int top = format == Fp8::e4m3 ? 8 : 15;  // the exponent of the largest number, whose mantissa is 1.75 in both
  const int exponent = static_cast<int>(bits >> 23) - 127;
  const int above = (bits & 0x7fffffu) > 0x600000u ? 1 : 0;  // a mantissa above 1.75
  const int power = top - exponent - above;
  return std::bit_cast<float>(static_cast<std::uint32_t>((power < 126 ? power : 126) + 127) << 23);
}

}  // namespace cohort::ops
