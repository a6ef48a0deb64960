// 8-bit floating point: the codes of the reference, over all codes and all that lies between them, and the scale of a tensor.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>

#include "base/dtype.hpp"
#include "ops/reference/fp8.hpp"
#include "ops/values.hpp"

namespace cohort::ops::reference {
namespace {

constexpr Fp8 kFormats[] = {Fp8::e4m3, Fp8::e5m2};

// Micikevicius et al. 2022, table 1.
TEST(Fp8, LandmarksOfTheFormats) {
  EXPECT_EQ(fp8_value(Fp8::e4m3, 0b0'1111'110), 448.0);
  EXPECT_EQ(fp8_value(Fp8::e4m3, 0b0'0001'000), 0x1p-6);
  EXPECT_EQ(fp8_value(Fp8::e4m3, 0b0'0000'111), 0.875 * 0x1p-6);
  EXPECT_EQ(fp8_value(Fp8::e4m3, 0b1'0000'001), -0x1p-9);
  EXPECT_TRUE(std::isnan(fp8_value(Fp8::e4m3, 0b1'1111'111)));
  EXPECT_EQ(fp8_value(Fp8::e5m2, 0b0'11110'11), 57344.0);
  EXPECT_EQ(fp8_value(Fp8::e5m2, 0b0'00001'00), 0x1p-14);
  EXPECT_EQ(fp8_value(Fp8::e5m2, 0b0'00000'01), 0x1p-16);
  EXPECT_EQ(fp8_value(Fp8::e5m2, 0b1'11111'00), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(fp8_value(Fp8::e5m2, 0b0'11111'01)));
}

// Numbers have their own codes. Between neighbours, what lies below the middle goes down, what lies above goes up, and the middle
// to the code whose last bit is 0.
TEST(Fp8, RoundsToTheNearestAndTiesToEven) {
  for (const Fp8 format : kFormats) {
    for (int sign : {0, 0x80}) {
      for (int size = 0; size < layout_of(format).largest_code; ++size) {
        const auto code = static_cast<std::uint8_t>(sign | size), next = static_cast<std::uint8_t>(sign | (size + 1));
        const double low = fp8_value(format, code), high = fp8_value(format, next), middle = (low + high) / 2.0;
        SCOPED_TRACE(fmt::format("{} {:#x}", name_of(format), code));
        EXPECT_LT(std::abs(low), std::abs(high));
        EXPECT_EQ(fp8_code(format, low), code);
        EXPECT_EQ(fp8_code(format, high), next);
        EXPECT_EQ(fp8_code(format, std::nextafter(middle, low)), code);
        EXPECT_EQ(fp8_code(format, std::nextafter(middle, high)), next);
        EXPECT_EQ(fp8_code(format, middle), size % 2 == 0 ? code : next);
      }
    }
  }
}

TEST(Fp8, SaturatesAndKeepsNaN) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const Fp8 format : kFormats) {
    const auto largest = static_cast<std::uint8_t>(layout_of(format).largest_code);
    for (const double beyond : {1.01 * layout_of(format).largest, 1e30, infinity}) {
      EXPECT_EQ(fp8_code(format, beyond), largest);
      EXPECT_EQ(fp8_code(format, -beyond), 0x80 | largest);
    }
    EXPECT_TRUE(std::isnan(fp8_value(format, fp8_code(format, nan))));
    EXPECT_EQ(fp8_code(format, -0.0), 0x80);
  }
}

// Of every bf16: a power of two that brings the largest element into the upper half of the format and not beyond it.
TEST(Fp8, MultiplierOfEveryLargestElement) {
  for (const Fp8 format : kFormats) {
    const double top = layout_of(format).largest;
    for (int bits = 1; bits < 0x7f80; ++bits) {
      const float largest = to_float(bf16{static_cast<std::uint16_t>(bits)});
      const auto multiplier = static_cast<double>(fp8_multiplier(format, largest));
      int exponent = 0;
      ASSERT_EQ(std::frexp(multiplier, &exponent), 0.5) << largest;
      ASSERT_LE(multiplier * static_cast<double>(largest), top) << largest;
      ASSERT_TRUE(2.0 * multiplier * static_cast<double>(largest) > top || multiplier == 0x1p126) << largest;
      ASSERT_EQ(fp8_multiplier(format, -largest), fp8_multiplier(format, largest));
    }
    EXPECT_EQ(fp8_multiplier(format, 0.0f), 1.0f);
    EXPECT_TRUE(std::isnan(fp8_multiplier(format, std::numeric_limits<float>::infinity())));
    EXPECT_TRUE(std::isnan(fp8_multiplier(format, std::numeric_limits<float>::quiet_NaN())));
  }
}

// What parallel layouts rest on: a part of a tensor, whose largest element is smaller, is rounded to the same numbers. Those that
// become subnormal, below 2^-14 of the largest in e4m3, are the exception, and with a scale that is no power of two all are.
TEST(Fp8, APartIsRoundedAsTheWhole) {
  Array whole = random_values(4096, 1);
  whole[0] = 30.0;  // not in the part
  const Input part = Input(whole).subspan(2048);
  const Array of_whole = fp8_rounded(Fp8::e4m3, whole), of_part = fp8_rounded(Fp8::e4m3, part);
  int same = 0, same_by_largest = 0;
  const auto by = [](double scale, double x) { return fp8_value(Fp8::e4m3, fp8_code(Fp8::e4m3, x * scale)) / scale; };
  double largest_of_part = 0.0;
  for (const double value : part) largest_of_part = std::max(largest_of_part, std::abs(value));
  for (std::size_t i = 0; i < part.size(); ++i) {
    const double size = std::abs(part[i]);
    if (size > 0x1p-14 * 30.0) {
      EXPECT_EQ(of_part[i], of_whole[2048 + i]) << part[i];
    }
    EXPECT_NEAR(of_part[i], part[i], std::max(0x1p-4 * size, 0x1p-10 * 30.0 / 224.0)) << "3 bits of mantissa";
    same += of_part[i] == of_whole[2048 + i];
    same_by_largest += by(448.0 / largest_of_part, part[i]) == by(448.0 / 30.0, part[i]);
  }
  EXPECT_GT(same, 2040);
  EXPECT_LT(same_by_largest, 200);
}

TEST(Fp8, OneElementThatIsNotFiniteMakesAllNaN) {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    for (const double value : fp8_rounded(Fp8::e5m2, Array{1.0, bad, 3.0})) EXPECT_TRUE(std::isnan(value)) << bad;
  }
}

}  // namespace
}  // namespace cohort::ops::reference
