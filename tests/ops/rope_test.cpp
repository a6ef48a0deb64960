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
  rope_tables(cosines, sines, kTheta);
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
      rope_tables(cosines, sines, 500000.0);
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
