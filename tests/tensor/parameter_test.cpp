// The registry of parameters: one contiguous block in order of declaration, initial values that depend on nothing but the seed
// and the parameter's own place.
#include "tensor/parameter.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/convert.hpp"
#include "tensor/initial_values.hpp"

namespace cohort {
namespace {

constexpr InitSpec kNormal{InitSpec::Kind::normal, 0.02};
constexpr InitSpec kUniform{InitSpec::Kind::uniform, 0.5};
constexpr InitSpec kOnes{InitSpec::Kind::ones};
constexpr InitSpec kZeros{InitSpec::Kind::zeros};

bool same_values(const Parameter& a, const Parameter& b) {
  return a.value.bytes() == b.value.bytes() &&
         std::memcmp(a.value.raw(), b.value.raw(), static_cast<std::size_t>(a.value.bytes())) == 0;
}

TEST(ParameterRegistry, LiesInOneBlockInOrderOfDeclaration) {
  ParameterRegistry registry;
  const Parameter& first = registry.declare("first", {3, 5}, kNormal);
  const Parameter& second = registry.declare("second", {7}, kOnes);
  const Parameter& third = registry.declare("third", {2, 2, 2}, kUniform);
  registry.allocate(1);
  EXPECT_EQ(registry.elements(), 30);
  EXPECT_EQ(registry.flat_values().shape(), Shape({30}));
  EXPECT_EQ(registry.flat_gradients().shape(), Shape({30}));
  const Parameter* const in_order[] = {&first, &second, &third};
  Count offset = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const Parameter& parameter = *in_order[i];
    EXPECT_EQ(registry.all()[i].get(), &parameter);  // the references of declare() stay valid
    EXPECT_EQ(parameter.id, static_cast<int>(i));
    EXPECT_EQ(parameter.offset, offset);
    EXPECT_EQ(parameter.value.f32(), registry.flat_values().f32() + offset);
    EXPECT_EQ(parameter.gradient.f32(), registry.flat_gradients().f32() + offset);
    EXPECT_EQ(parameter.value.shape(), parameter.global_shape);
    EXPECT_EQ(parameter.gradient.shape(), parameter.global_shape);
    offset += parameter.elements();
  }
}

// What layers read: the values themselves, or a copy of them in the type of the storage.
TEST(ParameterRegistry, ComputesWithTheValuesOrWithACopy) {
  ParameterRegistry fp32;
  const Parameter& weight = fp32.declare("weight", {40, 5}, kNormal);
  fp32.allocate(1);
  EXPECT_EQ(weight.compute.raw(), weight.value.raw());
  for (const DType dtype : {DType::bf16, DType::f16}) {
    ParameterRegistry narrow;
    narrow.declare("before", {7}, kOnes);
    const Parameter& copied = narrow.declare("weight", {40, 5}, kNormal);
    narrow.allocate(1, {.compute = dtype});
    EXPECT_EQ(copied.value.dtype(), DType::f32);
    EXPECT_EQ(copied.gradient.dtype(), DType::f32);
    EXPECT_EQ(copied.compute.dtype(), dtype);
    EXPECT_EQ(copied.compute.shape(), copied.global_shape);
    EXPECT_EQ(copied.compute.raw(), narrow.flat_compute().slice(7, 207).raw());
    const auto is_copy = [&] {
      const Tensor rounded = Tensor::zeros("test", copied.value.shape(), dtype);
      convert(rounded, copied.value);
      return std::memcmp(rounded.raw(), copied.compute.raw(), static_cast<std::size_t>(rounded.bytes())) == 0;
    };
    EXPECT_TRUE(is_copy()) << "of the initial values";
    copied.value.f32()[11] = 0.3f;
    EXPECT_FALSE(is_copy());
    narrow.values_changed();
    EXPECT_TRUE(is_copy());
  }
}

// Room behind a parameter for whole tiles: zero, and of no parameter.
TEST(ParameterRegistry, PaddingBelongsToNobody) {
  ParameterRegistry plain, padded;
  for (ParameterRegistry* registry : {&plain, &padded}) {
    registry->declare("first", {3, 5}, kNormal, registry == &padded ? 9 : 0);
    registry->declare("second", {7}, kUniform);
    registry->allocate(1);
  }
  EXPECT_EQ(padded.elements(), 22);
  EXPECT_EQ(padded.flat_values().elements(), 31);
  EXPECT_EQ(padded.flat_gradients().elements(), 31);
  EXPECT_EQ(padded.find("second")->offset, 24);
  EXPECT_TRUE(same_values(*padded.find("first"), *plain.find("first")));
  EXPECT_TRUE(same_values(*padded.find("second"), *plain.find("second")));
  for (Count i = 15; i < 24; ++i) EXPECT_EQ(padded.flat_values().f32()[i], 0.0f);
}

// Every part of a tensor starts with the values that the whole tensor has there, for parts of either dim, even and uneven, and
// for pieces of a part.
TEST(ParameterRegistry, PartsStartAsTheWhole) {
  for (const InitSpec init : {kNormal, kUniform, kOnes}) {
    for (const int dim : {0, 1}) {
      ParameterRegistry whole;
      whole.declare("first", {4}, kNormal);
      const Parameter& tensor = whole.declare("second", {10, 14}, init);
      whole.allocate(7);
      const Count ends[] = {0, 3, 3, 8, tensor.global_shape[dim]};
      for (std::size_t part = 0; part < 4; ++part) {
        ParameterRegistry registry;
        registry.skip(1);
        const ShardSpec shard{.splits = {{dim, Axis::tp, ends[part], ends[part + 1]}}};
        const Parameter& own = registry.declare("second", {10, 14}, init, 0, shard);
        registry.allocate(7);
        EXPECT_EQ(own.id, 1);
        EXPECT_EQ(own.shape[dim], ends[part + 1] - ends[part]);
        EXPECT_EQ(registry.elements(), own.elements());
        const BoxMap map(own.global_shape, own.box());
        for (Count i = 0; i < own.elements(); ++i) {
          const Count row = i / own.shape[1] + (dim == 0 ? ends[part] : 0);
          const Count column = i % own.shape[1] + (dim == 1 ? ends[part] : 0);
          ASSERT_EQ(map.global(i), 14 * row + column);
          ASSERT_EQ(own.value.f32()[i], tensor.value.f32()[14 * row + column]) << "part " << part << " of dim " << dim;
        }
        if (own.elements() < 12) continue;
        const Tensor piece = Tensor::zeros("test", {7});
        set_initial_values(piece, own, 5, 7);
        EXPECT_EQ(std::memcmp(piece.raw(), own.value.f32() + 5, 7 * sizeof(float)), 0);
      }
    }
  }
  ParameterRegistry registry;
  const ShardSpec beyond{.splits = {{0, Axis::tp, 3, 11}}};
  EXPECT_ANY_THROW(registry.declare("beyond", {10, 14}, kOnes, 0, beyond));
}

// Experts with tensor parallelism inside: [E, C, F], E over one axis and F over another, unevenly; and C over a third.
TEST(ParameterRegistry, PartsOfSeveralSplitsStartAsTheWhole) {
  const Shape shape{5, 6, 7};
  for (const InitSpec init : {kNormal, kUniform}) {
    ParameterRegistry whole;
    const Parameter& tensor = whole.declare("experts", shape, init);
    whole.allocate(7);
    std::vector<int> seen(static_cast<std::size_t>(shape.elements()), 0);
    for (const auto& [e, e_end] : {std::pair<Count, Count>(0, 2), {2, 5}}) {
      for (const auto& [f, f_end] : {std::pair<Count, Count>(0, 3), {3, 4}, {4, 7}}) {
        for (const auto& [c, c_end] : {std::pair<Count, Count>(0, 1), {1, 6}}) {
          ParameterRegistry registry;
          const ShardSpec shard{.splits = {{0, Axis::dp, e, e_end}, {2, Axis::tp, f, f_end}, {1, Axis::cp, c, c_end}}};
          const Parameter& own = registry.declare("experts", shape, init, 0, shard);
          registry.allocate(7);
          ASSERT_EQ(own.shape, Shape({e_end - e, c_end - c, f_end - f}));
          for (Count i = 0; i < own.elements(); ++i) {
            const Count at =
                ((e + i / own.shape[2] / own.shape[1]) * 6 + c + i / own.shape[2] % own.shape[1]) * 7 + f + i % own.shape[2];
            ++seen[static_cast<std::size_t>(at)];
            ASSERT_EQ(own.value.f32()[i], tensor.value.f32()[at]);
          }
        }
      }
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), shape.elements());
  }
  // Two splits of one dim: what lies in both.
  const ShardSpec nested{.splits = {{1, Axis::dp, 2, 6}, {1, Axis::tp, 3, 5}}};
  EXPECT_EQ(nested.box(shape), (Box{{0, 3, 0}, {5, 2, 7}}));
  EXPECT_EQ(ShardSpec{}.box(shape), Box::whole(shape));
}

TEST(ParameterRegistry, FindsByName) {
  ParameterRegistry registry;
  const Parameter& weight = registry.declare("blocks.0.weight", {2, 2}, kNormal);
  EXPECT_EQ(registry.find("blocks.0.weight"), &weight);
  EXPECT_EQ(registry.find("blocks.1.weight"), nullptr);
  EXPECT_EQ(registry.find(""), nullptr);
}

TEST(ParameterRegistry, RefusesTwoOfOneNameAndLateOnes) {
  ParameterRegistry registry;
  registry.declare("weight", {2, 2}, kNormal);
  EXPECT_THROW(registry.declare("weight", {3}, kNormal), Error);
  registry.allocate(1);
  EXPECT_THROW(registry.declare("late", {3}, kNormal), Error);
}

TEST(ParameterRegistry, MatricesDecayVectorsDoNot) {
  ParameterRegistry registry;
  EXPECT_TRUE(registry.declare("matrix", {2, 2}, kNormal).decays);
  EXPECT_FALSE(registry.declare("vector", {2}, kOnes).decays);
}

TEST(ParameterRegistry, GradientsStartAtZeroAndGoBackToIt) {
  ParameterRegistry registry;
  const Parameter& weight = registry.declare("weight", {5}, kNormal);
  registry.allocate(1);
  for (const float element : registry.flat_gradients().span<float>()) EXPECT_EQ(element, 0.0f);
  weight.gradient.f32()[3] = 2.0f;
  EXPECT_EQ(registry.flat_gradients().f32()[3], 2.0f);
  registry.zero_gradients();
  EXPECT_EQ(weight.gradient.f32()[3], 0.0f);
}

TEST(Init, ZerosAndOnes) {
  ParameterRegistry registry;
  const Parameter& zeros = registry.declare("zeros", {17}, kZeros);
  const Parameter& ones = registry.declare("ones", {17}, kOnes);
  registry.allocate(1);
  for (const float element : zeros.value.span<float>()) EXPECT_EQ(element, 0.0f);
  for (const float element : ones.value.span<float>()) EXPECT_EQ(element, 1.0f);
}

TEST(Init, DependsOnTheSeedAndThePlaceAlone) {
  ParameterRegistry a, b, c;
  for (ParameterRegistry* registry : {&a, &b, &c}) {
    // Before it another shape and another kind in b: they must not move the stream of what follows.
    registry->declare("before", registry == &b ? Shape{1} : Shape{100, 3}, registry == &b ? kZeros : kNormal);
    registry->declare("weight", {40, 5}, kNormal);
    if (registry == &b) registry->declare("after", {9}, kUniform);
  }
  a.allocate(1);
  b.allocate(1);
  c.allocate(2);
  EXPECT_TRUE(same_values(*a.find("weight"), *b.find("weight")));
  EXPECT_FALSE(same_values(*a.find("weight"), *c.find("weight")));
}

TEST(Init, ParametersAndElementsDiffer) {
  ParameterRegistry registry;
  const Parameter& first = registry.declare("first", {64, 64}, kNormal);
  const Parameter& second = registry.declare("second", {64, 64}, kNormal);
  registry.allocate(1);
  EXPECT_FALSE(same_values(first, second));
  // Uncorrelated: over n pairs the correlation deviates by 1 / sqrt(n) = 1/64 from 0. Five deviations, also for neighbours in a
  // row.
  double between = 0.0, neighbours = 0.0;
  for (Count i = 0; i < 4096; ++i) {
    between += first.value.f32()[i] * second.value.f32()[i] / (4096 * 0.02 * 0.02);
    neighbours += first.value.f32()[i] * first.value.f32()[(i + 1) % 4096] / (4096 * 0.02 * 0.02);
  }
  EXPECT_NEAR(between, 0.0, 5.0 / 64.0);
  EXPECT_NEAR(neighbours, 0.0, 5.0 / 64.0);
}

// Of n draws the mean deviates by sigma / sqrt(n), the variance by sigma^2 sqrt((kurtosis - 1) / n): kurtosis 3 for normal, 1.8
// for uniform. Five deviations are allowed.
TEST(Init, NormalHasItsMoments) {
  ParameterRegistry registry;
  const Parameter& weight = registry.declare("weight", {1000, 100}, kNormal);
  registry.allocate(7);
  const double n = 1e5;
  double mean = 0.0, square = 0.0, beyond_two = 0.0;
  for (const float element : weight.value.span<float>()) {
    const double z = element / 0.02;
    mean += z / n;
    square += z * z / n;
    beyond_two += (std::abs(z) > 2.0 ? 1.0 : 0.0) / n;
  }
  EXPECT_NEAR(mean, 0.0, 5.0 / std::sqrt(n));
  EXPECT_NEAR(square, 1.0, 5.0 * std::sqrt(2.0 / n));
  EXPECT_NEAR(beyond_two, 0.0455, 5.0 * std::sqrt(0.0455 / n));  // the tails of a normal, not of anything else with these moments
}

TEST(Init, UniformHasItsMomentsAndRange) {
  ParameterRegistry registry;
  const Parameter& weight = registry.declare("weight", {1000, 100}, kUniform);
  registry.allocate(7);
  const double n = 1e5;
  double mean = 0.0, square = 0.0, largest = 0.0;
  for (const float element : weight.value.span<float>()) {
    const double z = element / 0.5;
    mean += z / n;
    square += z * z / n;
    largest = std::max(largest, std::abs(z));
  }
  EXPECT_NEAR(mean, 0.0, 5.0 * std::sqrt(1.0 / 3.0 / n));
  EXPECT_NEAR(square, 1.0 / 3.0, 5.0 * std::sqrt(0.8 / n) / 3.0);
  EXPECT_LE(largest, 1.0);
  EXPECT_GT(largest, 0.999);
}

}  // namespace
}  // namespace cohort
