// Rotary positions against their reference.
#include <gtest/gtest.h>

#include "ops/attention.hpp"
#include "ops/compare.hpp"
#include "ops/finite_difference.hpp"
#include "ops/reference/rope.hpp"

namespace cohort::ops {
namespace {

constexpr double kTheta = 10000.0;

// The rotated copy of qkv; direction -1 for backward.
Tensor run(const AttentionShape& s, Input qkv, int direction) {
  const Shape shape{s.tokens, s.head_size / 2};
  const Tensor cosines = filled(shape, kGarbage, DeviceKind::cpu), sines = filled(shape, kGarbage, DeviceKind::cpu);
  rope_tables(cosines, sines, {.theta = kTheta});
  const Tensor tensor = tensor_of(qkv, {s.batch, s.tokens, s.packed_width()});
  (direction > 0 ? rope_forward : rope_backward)(test_exec(), s, tensor, cosines.to(test_device(), "cosines"),
                                                 sines.to(test_device(), "sines"));
  return tensor;
}

reference::Heads heads_of(const AttentionShape& s) { return {s.batch, s.tokens, s.heads, s.kv_heads, s.head_size}; }

// Each result is a cos + b sin: the roundings of the two table entries, the products and the sum, of numbers of size |(a, b)|.
// The elements of value heads are not touched.
Array tolerance_of(const AttentionShape& s, Input qkv) {
  Array tolerance(qkv.size(), 0.0);
  const Count half = s.head_size / 2;
  for (Count i = 0; i < static_cast<Count>(qkv.size()); ++i) {
    const Count column = i % s.packed_width();
    if (column >= (s.heads + s.kv_heads) * s.head_size) continue;
    const Count partner = column % s.head_size < half ? i + half : i - half;
    tolerance[i] = 3.0 * kEps * (std::abs(qkv[i]) + std::abs(qkv[partner]));
  }
  return tolerance;
}

TEST(Rope, Tables) {
  for (const Count tokens : {1, 7, 2048}) {
    for (const Count half : {1, 2, 40, 64}) {
      const Tensor cosines = filled({tokens, half}, kGarbage, DeviceKind::cpu),
                   sines = filled({tokens, half}, kGarbage, DeviceKind::cpu);
      rope_tables(cosines, sines, {.theta = 500000.0});
      Array expected_cosines, expected_sines;
      for (Count t = 0; t < tokens; ++t) {
        for (Count i = 0; i < half; ++i) {
          const double angle = reference::rope_angle(t, i, 2 * half, 500000.0);
          expected_cosines.push_back(std::cos(angle));
          expected_sines.push_back(std::sin(angle));
        }
      }
      // One rounding of a number up to 1. Angles computed in fp32 would be off by 1e-4 at position 2048.
      EXPECT_TRUE(close(cosines, expected_cosines, 0.51 * kEps));
      EXPECT_TRUE(close(sines, expected_sines, 0.51 * kEps));
    }
  }
}

// The angles of position 3, by pairs.
std::vector<double> sines_of(const RopeSpec& spec, Count half) {
  const Tensor cosines = filled({4, half}, kGarbage, DeviceKind::cpu), sines = filled({4, half}, kGarbage, DeviceKind::cpu);
  rope_tables(cosines, sines, spec);
  const Array all = values_of(sines);
  return {all.end() - half, all.end()};
}

// Of 8 pairs with theta 1e4, pair i turns by 10^(-i/2) a token: in 628 tokens, which is 99.949 times 2
// pi, 99.9, 31.6, 9.99, 3.1607, 0.9995, ... times. So with low 1.1 and high 9 pairs 0 to 2 keep their speed, 4 to 7 slow down by
// the factor, and pair 3 is (3.1607 - 1.1) / 7.9 of the way. One rounding of a number up to 1; of pair 3, the digits written
// here.
TEST(Rope, ScaledSpeeds) {
  const RopeSpec plain{.theta = 1e4};
  RopeSpec llama3{.theta = 1e4, .scaling = RopeScaling::llama3, .factor = 4.0, .low = 1.1, .high = 9.0, .original_context = 628};
  RopeSpec linear = llama3;
  linear.scaling = RopeScaling::linear;
  const std::vector<double> scaled = sines_of(llama3, 8), slow = sines_of(linear, 8), fast = sines_of(plain, 8);
  for (int i = 0; i < 8; ++i) {
    const double speed = std::pow(10.0, -0.5 * i);
    EXPECT_NEAR(fast[i], std::sin(3.0 * speed), 1e-7) << i;
    EXPECT_NEAR(slow[i], std::sin(3.0 * speed / 4.0), 1e-7) << i;
    const double kept = i < 3 ? 1.0 : i == 3 ? (3.1607 - 1.1) / 7.9 : 0.0;
    EXPECT_NEAR(scaled[i], std::sin(3.0 * speed * (kept + (1.0 - kept) / 4.0)), i == 3 ? 1e-6 : 1e-7) << i;
  }
}

TEST(Rope, MatchesTheReference) {
  for (const Count tokens : {1, 2, 33, 257}) {
    for (const Count head_size : {2, 4, 16, 64, 80, 128}) {
      for (const Count kv_heads : {1, 2}) {
        const AttentionShape s{2, tokens, 2, kv_heads, head_size};
        SCOPED_TRACE(fmt::format("T {} HS {} NKV {}", tokens, head_size, kv_heads));
        const Array qkv = random_values(2 * tokens * s.packed_width(), 1);
        for (const int direction : {+1, -1}) {
          EXPECT_TRUE(close(run(s, qkv, direction), reference::rope(qkv, heads_of(s), kTheta, direction), tolerance_of(s, qkv)))
              << direction;
        }
      }
    }
  }
}

TEST(Rope, BackwardUndoesForward) {
  const AttentionShape s{2, 33, 4, 2, 16};
  const Array qkv = random_values(2 * 33 * s.packed_width(), 1);
  Array tolerance = tolerance_of(s, qkv);
  for (double& value : tolerance) value *= 3.0;  // two rotations, the second of numbers up to sqrt(2) larger
  EXPECT_TRUE(close(run(s, values_of(run(s, qkv, +1)), -1), qkv, tolerance));
}

TEST(Rope, GradientIsTheSlopeOfTheOp) {
  const AttentionShape s{1, 33, 2, 1, 16};
  const Array qkv = random_values(33 * s.packed_width(), 1), dout = random_values(33 * s.packed_width(), 2);
  const auto loss = [&](Input v) { return dot(dout, values_of(run(s, v, +1))); };
  EXPECT_TRUE(moves_along(values_of(run(s, dout, -1)), qkv, loss));
  EXPECT_FALSE(moves_along(values_of(run(s, dout, +1)), qkv, loss));
}

TEST(Rope, SameBitsEachTime) {
  const AttentionShape s{2, 33, 4, 2, 64};
  const Array qkv = random_values(2 * 33 * s.packed_width(), 1);
  EXPECT_TRUE(repeats([&] { return std::vector<Tensor>{run(s, qkv, +1), run(s, qkv, -1)}; }));
}

TEST(Rope, TheComparisonRejectsOtherRotations) {
  const AttentionShape s{2, 33, 4, 2, 16};
  const Array qkv = random_values(2 * 33 * s.packed_width(), 1), tolerance = tolerance_of(s, qkv);
  const Tensor rotated = run(s, qkv, +1);
  EXPECT_FALSE(close(rotated, qkv, tolerance));                                            // not rotated
  EXPECT_FALSE(close(rotated, reference::rope(qkv, heads_of(s), kTheta, -1), tolerance));  // the other way round
  EXPECT_FALSE(close(rotated, reference::rope(qkv, heads_of(s), 1.01 * kTheta, 1), tolerance));
  reference::Heads one_sample = heads_of(s);  // positions that run on into the second sample
  one_sample.batch = 1;
  one_sample.tokens = 66;
  EXPECT_FALSE(close(rotated, reference::rope(qkv, one_sample, kTheta, +1), tolerance));
  reference::Heads all_heads = heads_of(s);  // value heads rotated too
  all_heads.heads = 8;
  all_heads.kv_heads = 0;
  EXPECT_FALSE(close(rotated, reference::rope(qkv, all_heads, kTheta, +1), tolerance));
}

}  // namespace
}  // namespace cohort::ops
