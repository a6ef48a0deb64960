// Conversions of bf16 and fp16, over all 65536 patterns and all ties between neighbours.
#include "base/dtype.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "support/expect_error.hpp"

namespace cohort {
namespace {

template <class T>
T narrow(float value);
template <>
bf16 narrow<bf16>(float value) {
  return to_bf16(value);
}
template <>
f16 narrow<f16>(float value) {
  return to_f16(value);
}

template <class T>
struct Format;
template <>
struct Format<bf16> {
  static constexpr int exponent_bits = 8;
  static constexpr int mantissa_bits = 7;
};
template <>
struct Format<f16> {
  static constexpr int exponent_bits = 5;
  static constexpr int mantissa_bits = 10;
};

// The value of a pattern by the definition of the format, in double, without bit tricks.
template <class T>
double defined_value(unsigned bits) {
  constexpr int mantissa_bits = Format<T>::mantissa_bits;
  constexpr int bias = (1 << (Format<T>::exponent_bits - 1)) - 1;
  const double sign = bits & 0x8000u ? -1.0 : 1.0;
  const int exponent = static_cast<int>((bits & 0x7fffu) >> mantissa_bits);
  const double fraction = std::ldexp(static_cast<double>(bits & ((1u << mantissa_bits) - 1u)), -mantissa_bits);
  if (exponent == (1 << Format<T>::exponent_bits) - 1) {
    return fraction == 0.0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  return exponent == 0 ? sign * std::ldexp(fraction, 1 - bias) : sign * std::ldexp(1.0 + fraction, exponent - bias);
}

template <class T>
class HalfPrecision : public ::testing::Test {};
using Formats = ::testing::Types<bf16, f16>;
TYPED_TEST_SUITE(HalfPrecision, Formats);

TYPED_TEST(HalfPrecision, EveryPatternHasItsValueAndSurvivesTheRoundTrip) {
  for (unsigned bits = 0; bits <= 0xffffu; ++bits) {
    const TypeParam half{static_cast<std::uint16_t>(bits)};
    const double expected = defined_value<TypeParam>(bits);
    const float value = to_float(half);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << std::hex << bits;
      ASSERT_TRUE(std::isnan(to_float(narrow<TypeParam>(value)))) << std::hex << bits;
    } else {
      ASSERT_EQ(static_cast<double>(value), expected) << std::hex << bits;
      ASSERT_EQ(narrow<TypeParam>(value).bits, bits) << std::hex << bits;  // compares the sign of zero too
    }
  }
}

// Between two neighbours there is one tie, which is exact in fp32: it goes to the even pattern, and the fp32 numbers beside it go
// to the nearer neighbour. Above the largest finite number the neighbour is where the next one would be, which is infinity.
TYPED_TEST(HalfPrecision, EveryTieGoesToEvenAndItsNeighboursToTheNearest) {
  constexpr unsigned infinity = ((1u << Format<TypeParam>::exponent_bits) - 1u) << Format<TypeParam>::mantissa_bits;
  for (unsigned sign : {0u, 0x8000u}) {
    for (unsigned low = 0; low < infinity; ++low) {
      const unsigned high = low + 1;
      const double below = std::fabs(defined_value<TypeParam>(low));
      const double step = low == 0 ? defined_value<TypeParam>(1) : below - std::fabs(defined_value<TypeParam>(low - 1));
      const double above = high == infinity ? below + step : std::fabs(defined_value<TypeParam>(high));
      const double middle = (below + above) / 2;
      const auto tie = static_cast<float>(middle);
      ASSERT_EQ(static_cast<double>(tie), middle) << std::hex << low;
      const float direction = sign ? -1.0f : 1.0f;
      const unsigned even = low % 2 == 0 ? low : high;
      ASSERT_EQ(narrow<TypeParam>(direction * tie).bits, even | sign) << std::hex << low;
      ASSERT_EQ(narrow<TypeParam>(direction * std::nextafter(tie, 0.0f)).bits, low | sign) << std::hex << low;
      ASSERT_EQ(narrow<TypeParam>(direction * std::nextafter(tie, INFINITY)).bits, high | sign) << std::hex << low;
    }
  }
}

TYPED_TEST(HalfPrecision, ExtremesAndNaN) {
  EXPECT_TRUE(std::isinf(to_float(narrow<TypeParam>(std::numeric_limits<float>::max()))));
  EXPECT_EQ(to_float(narrow<TypeParam>(-INFINITY)), -INFINITY);
  // A NaN whose payload lies only in the bits that are cut off must not become infinity.
  EXPECT_TRUE(std::isnan(to_float(narrow<TypeParam>(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(to_float(narrow<TypeParam>(std::bit_cast<float>(0xffffffffu)))));
}

TEST(DType, NamesAndSizesAgree) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32, DType::i64, DType::u8}) {
    EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
  }
  EXPECT_EQ(size_of(DType::f32), 4);
  EXPECT_EQ(size_of(DType::bf16), 2);
  EXPECT_EQ(size_of(DType::f16), 2);
  EXPECT_EQ(size_of(DType::f64), 8);
  EXPECT_EQ(size_of(DType::i32), 4);
  EXPECT_EQ(size_of(DType::i64), 8);
  EXPECT_EQ(size_of(DType::u8), 1);
  EXPECT_TRUE(is_floating(dtype_of<bf16>));
  EXPECT_FALSE(is_floating(dtype_of<std::int64_t>));
  EXPECT_ERROR(dtype_from_name("fp8"), ExitCode::config, "fp8", "bf16");
}

}  // namespace
}  // namespace cohort
