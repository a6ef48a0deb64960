// fp32 copies of 16-bit tensors: exact on the way in, rounded to nearest even on the way out, whatever is in the tensor.
#include "ops/cpu/fp32_copies.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "ops/compare.hpp"
#include "support/expect_error.hpp"

namespace cohort::ops {
namespace {

constexpr Count kPatterns = 65536;

template <class T>
class NarrowType : public ::testing::Test {};
using NarrowTypes = ::testing::Types<bf16, f16>;
TYPED_TEST_SUITE(NarrowType, NarrowTypes);

template <class T>
Tensor tensor_of_bits(const std::vector<unsigned>& bits) {
  const Tensor tensor = Tensor::zeros("test", {static_cast<Count>(bits.size())}, dtype_of<T>);
  for (std::size_t i = 0; i < bits.size(); ++i) tensor.span<T>()[i].bits = static_cast<std::uint16_t>(bits[i]);
  return tensor;
}

template <class T>
Tensor all_patterns() {
  std::vector<unsigned> bits(kPatterns);
  std::iota(bits.begin(), bits.end(), 0u);
  return tensor_of_bits<T>(bits);
}

/// What out() leaves in a tensor of type T after these values were written to its copy.
template <class T>
std::vector<unsigned> rounded(const std::vector<float>& values) {
  const Tensor narrow = Tensor::zeros("test", {static_cast<Count>(values.size())}, dtype_of<T>);
  {
    Fp32Copies fp32;
    std::copy(values.begin(), values.end(), fp32.out(narrow).f32());
  }
  std::vector<unsigned> bits;
  for (const T element : narrow.span<T>()) bits.push_back(element.bits);
  return bits;
}

/// Bits of infinity: those below are the finite numbers from 0 up, in order.
template <class T>
constexpr unsigned kInfinity = std::is_same_v<T, bf16> ? 0x7f80u : 0x7c00u;

/// The value of finite bits, by the definition of the format.
template <class T>
double defined_value(unsigned bits) {
  constexpr int kMantissaBits = std::is_same_v<T, bf16> ? 7 : 10;
  constexpr int kBias = std::is_same_v<T, bf16> ? 127 : 15;
  const int exponent = static_cast<int>(bits >> kMantissaBits);
  const double fraction = static_cast<double>(bits % (1u << kMantissaBits)) / (1 << kMantissaBits);
  return exponent == 0 ? std::ldexp(fraction, 1 - kBias) : std::ldexp(1.0 + fraction, exponent - kBias);
}

TYPED_TEST(NarrowType, IsNarrow) {
  EXPECT_TRUE(is_narrow(Tensor::zeros("test", {3}, dtype_of<TypeParam>)));
  EXPECT_FALSE(is_narrow(Tensor::zeros("test", {3})));
  EXPECT_FALSE(is_narrow(Tensor::zeros("test", {3}, DType::u8)));
  EXPECT_FALSE(is_narrow({}));
}

TYPED_TEST(NarrowType, InHasTheExactValueOfEveryPattern) {
  const Tensor narrow = all_patterns<TypeParam>();
  Fp32Copies fp32;
  const Tensor copy = fp32.in(narrow);
  ASSERT_EQ(copy.dtype(), DType::f32);
  ASSERT_EQ(copy.shape(), narrow.shape());
  for (unsigned bits = 0; bits < kPatterns; ++bits) {
    const float value = copy.f32()[bits];
    const unsigned magnitude = bits & 0x7fffu;
    ASSERT_EQ(std::signbit(value), bits >= 0x8000u) << std::hex << bits;
    if (magnitude < kInfinity<TypeParam>) {
      ASSERT_EQ(std::abs(static_cast<double>(value)), defined_value<TypeParam>(magnitude)) << std::hex << bits;
    } else if (magnitude == kInfinity<TypeParam>) {
      ASSERT_TRUE(std::isinf(value)) << std::hex << bits;
    } else {
      ASSERT_TRUE(std::isnan(value)) << std::hex << bits;
    }
  }
}

TYPED_TEST(NarrowType, EveryPatternSurvivesTheRoundTrip) {
  const Tensor narrow = all_patterns<TypeParam>();
  { Fp32Copies().inout(narrow); }
  for (unsigned bits = 0; bits < kPatterns; ++bits) {
    const unsigned found = narrow.span<TypeParam>()[bits].bits;
    if ((bits & 0x7fffu) <= kInfinity<TypeParam>) {
      ASSERT_EQ(found, bits) << std::hex << bits;
    } else {
      ASSERT_GT(found & 0x7fffu, kInfinity<TypeParam>) << std::hex << bits;  // still not a number
    }
  }
}

// Between two neighbours lies one tie, exact in fp32: it goes to the even pattern, the fp32 numbers beside it to the nearer one.
// The neighbour of the largest finite number is where the next would be: infinity.
TYPED_TEST(NarrowType, TiesGoToEvenAndTheirNeighboursToTheNearest) {
  std::vector<float> values;
  std::vector<unsigned> expected;
  for (unsigned low = 0; low < kInfinity<TypeParam>; ++low) {
    const double below = defined_value<TypeParam>(low);
    const double step = low == 0 ? defined_value<TypeParam>(1) : below - defined_value<TypeParam>(low - 1);
    // The step doubles where an exponent ends; then `low` is the first of its exponent.
    const double above = low + 1 < kInfinity<TypeParam> ? defined_value<TypeParam>(low + 1) : below + step;
    const auto tie = static_cast<float>((below + above) / 2);
    ASSERT_EQ(static_cast<double>(tie), (below + above) / 2) << std::hex << low;
    for (const float sign : {1.0f, -1.0f}) {
      const unsigned sign_bit = sign < 0.0f ? 0x8000u : 0u;
      values.insert(values.end(), {sign * tie, sign * std::nextafter(tie, 0.0f), sign * std::nextafter(tie, INFINITY)});
      expected.insert(expected.end(), {(low + low % 2) | sign_bit, low | sign_bit, (low + 1) | sign_bit});
    }
  }
  const std::vector<unsigned> found = rounded<TypeParam>(values);
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], expected[i]) << values[i];
}

TYPED_TEST(NarrowType, ExtremesAndNaN) {
  constexpr float kMax = std::numeric_limits<float>::max(), kTiny = std::numeric_limits<float>::denorm_min();
  const std::vector<unsigned> found = rounded<TypeParam>({kMax, -kMax, INFINITY, -INFINITY, kTiny, -kTiny, NAN, -NAN});
  constexpr unsigned kSign = 0x8000u;
  EXPECT_EQ(found[0], kInfinity<TypeParam>);
  EXPECT_EQ(found[1], kInfinity<TypeParam> | kSign);
  EXPECT_EQ(found[2], kInfinity<TypeParam>);
  EXPECT_EQ(found[3], kInfinity<TypeParam> | kSign);
  EXPECT_EQ(found[4], 0u);
  EXPECT_EQ(found[5], kSign);
  EXPECT_GT(found[6] & 0x7fffu, kInfinity<TypeParam>);
  EXPECT_GT(found[7] & 0x7fffu, kInfinity<TypeParam>);
  // A NaN whose payload lies only in the bits that are cut off must not become infinity.
  EXPECT_GT(rounded<TypeParam>({std::bit_cast<float>(0x7f800001u)})[0] & 0x7fffu, kInfinity<TypeParam>);
}

// Every length around those of vector registers, from an address that is aligned to no more than an element; nothing beside it is
// touched.
TYPED_TEST(NarrowType, AnyLengthAndPlace) {
  for (Count n = 0; n <= 67; ++n) {
    const Tensor whole = Tensor::zeros("test", {n + 6}, dtype_of<TypeParam>);
    for (TypeParam& element : whole.span<TypeParam>()) element = from_float<TypeParam>(-1.0f);
    {
      Fp32Copies fp32;
      const Tensor copy = fp32.inout(whole.slice(3, n + 3));
      for (float& value : copy.span<float>()) value += 3.0f;
    }
    for (Count i = 0; i < n + 6; ++i) {
      ASSERT_EQ(to_float(whole.span<TypeParam>()[i]), i >= 3 && i < n + 3 ? 2.0f : -1.0f) << "element " << i << " of " << n;
    }
  }
}

TYPED_TEST(NarrowType, OutputsAreRoundedAtTheEndAndInputsLeftAlone) {
  const std::vector<unsigned> ones(5, from_float<TypeParam>(1.0f).bits);
  const Tensor input = tensor_of_bits<TypeParam>(ones), output = tensor_of_bits<TypeParam>(ones);
  {
    Fp32Copies fp32;
    for (float& value : fp32.in(input).span<float>()) value = 7.0f;
    for (float& value : fp32.out(output).span<float>()) value = 7.0f;
    EXPECT_EQ(to_float(output.span<TypeParam>()[4]), 1.0f);
  }
  for (const TypeParam element : input.span<TypeParam>()) EXPECT_EQ(to_float(element), 1.0f);
  for (const TypeParam element : output.span<TypeParam>()) EXPECT_EQ(to_float(element), 7.0f);
}

// As in gelu_backward(dx, dout) with dx = dout: each element is read before its result is stored.
TYPED_TEST(NarrowType, OneTensorMayBeReadAndOverwritten) {
  const Tensor tensor = tensor_of_bits<TypeParam>({from_float<TypeParam>(1.0f).bits, from_float<TypeParam>(2.0f).bits});
  {
    Fp32Copies fp32;
    const Tensor result = fp32.out(tensor), x = fp32.in(tensor);
    for (Count i = 0; i < 2; ++i) result.f32()[i] = 10.0f * x.f32()[1 - i];
  }
  EXPECT_EQ(to_float(tensor.span<TypeParam>()[0]), 20.0f);
  EXPECT_EQ(to_float(tensor.span<TypeParam>()[1]), 10.0f);
}

// An op that calls another which makes copies of its own: the inner ones end first and leave the outer ones alone. The sizes make
// the scratch memory grow in between.
TYPED_TEST(NarrowType, Nests) {
  const Count large = 3 << 20;
  const Tensor a = tensor_of_bits<TypeParam>(std::vector<unsigned>(1000, from_float<TypeParam>(1.0f).bits));
  const Tensor b = Tensor::zeros("test", {large}, dtype_of<TypeParam>);
  {
    Fp32Copies outer;
    const Tensor outer_copy = outer.inout(a);
    for (int turn = 1; turn <= 2; ++turn) {
      {
        Fp32Copies inner;
        for (float& value : inner.inout(b).span<float>()) value += outer_copy.f32()[999];
      }
      ASSERT_EQ(to_float(b.span<TypeParam>()[large - 1]), static_cast<float>(turn));
    }
    for (float& value : outer_copy.span<float>()) value += 4.0f;
  }
  for (const TypeParam element : a.span<TypeParam>()) ASSERT_EQ(to_float(element), 5.0f);
}

TYPED_TEST(NarrowType, MemoryIsUsedAgain) {
  const Tensor tensor = Tensor::zeros("test", {100, 7}, dtype_of<TypeParam>);
  const void* places[2];
  for (const void*& place : places) {
    Fp32Copies fp32;
    fp32.out(tensor);
    place = fp32.in(tensor).raw();
  }
  EXPECT_EQ(places[0], places[1]);
}

TEST(Fp32Copies, OfOtherTensorsAreTheTensorsThemselves) {
  const Tensor fp32_tensor = filled({3, 4}, 1.5f);
  const Tensor indices = Tensor::zeros("test", {5}, DType::i32);
  {
    Fp32Copies fp32;
    for (const Tensor& tensor : {fp32_tensor, indices}) {
      for (const Tensor& same : {fp32.in(tensor), fp32.out(tensor), fp32.inout(tensor)}) {
        EXPECT_EQ(same.raw(), tensor.raw());
        EXPECT_EQ(same.shape(), tensor.shape());
        EXPECT_EQ(same.dtype(), tensor.dtype());
      }
    }
    EXPECT_FALSE(fp32.in({}).defined());
    EXPECT_FALSE(fp32.out({}).defined());
    EXPECT_FALSE(fp32.inout({}).defined());
  }
  for (const float value : fp32_tensor.span<float>()) EXPECT_EQ(value, 1.5f);
}

TEST(Fp32Copies, RefuseMoreOutputsThanAnOpHas) {
  const Tensor tensor = Tensor::zeros("test", {2}, DType::bf16);
  Fp32Copies fp32;
  for (int i = 0; i < 8; ++i) fp32.out(tensor).zero();
  EXPECT_ERROR(fp32.out(tensor), ExitCode::internal, "more than 8 outputs");
}

}  // namespace
}  // namespace cohort::ops
