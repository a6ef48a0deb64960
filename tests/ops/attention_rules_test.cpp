// What attention keeps to beside its formula, and planted faults that the comparison must reject.
#include "ops/attention_problem.hpp"
#include "ops/finite_difference.hpp"

namespace cohort::ops {
namespace {

TEST(AttentionRules, LaterTokensDoNotMatter) {
  for (const Count tokens : {7, 64, 100}) {
    const AttentionProblem p({1, tokens, 2, 1, 16});
    const std::vector<Tensor> before = run_forward(p, p.qkv);
    for (const Count first_changed : {Count{1}, tokens / 2, tokens - 1}) {
      Array changed = p.qkv;
      for (Count i = first_changed * p.shape.packed_width(); i < static_cast<Count>(changed.size()); ++i)
        changed[i] = 50.0 - changed[i];
      const std::vector<Tensor> after = run_forward(p, changed);
      const Shape by_token{tokens, p.shape.width()};
      const auto same_rows = [&](Count begin, Count end) {
        return same_bits(before[0].reshaped(by_token).slice(begin, end), after[0].reshaped(by_token).slice(begin, end));
      };
      EXPECT_TRUE(same_rows(0, first_changed)) << tokens << " tokens, changed from " << first_changed;
      EXPECT_FALSE(same_rows(first_changed, first_changed + 1));
    }
  }
}

TEST(AttentionRules, SamplesDoNotTouchEachOther) {
  const AttentionProblem both({2, 33, 4, 2, 16});
  const std::vector<Tensor> together = run_forward(both, both.qkv);
  const AttentionProblem one({1, 33, 4, 2, 16});
  const Array second(both.qkv.begin() + both.qkv.size() / 2, both.qkv.end());
  const std::vector<Tensor> alone = run_forward(one, second);
  EXPECT_TRUE(same_bits(together[0].slice(1, 2), alone[0]));
  EXPECT_TRUE(same_bits(together[1].slice(1, 2), alone[1]));
}

TEST(AttentionRules, ScratchIsSmall) {
  const auto bytes = [](const AttentionShape& shape) { return attention_scratch_bytes({}, shape, DType::f32); };
  const Bytes one_head = bytes({1, 1024, 1, 1, 64});
  EXPECT_EQ(bytes({8, 1024, 16, 4, 64}), one_head);  // samples and heads share it
  EXPECT_GT(one_head, 0);
  for (const DeviceKind device : {DeviceKind::cpu, DeviceKind::gpu})  // the portable kernels take none
    EXPECT_EQ(attention_scratch_bytes({.device = device, .kernels = Kernels::portable}, {1, 1024, 1, 1, 64}, DType::f32), 0);
  // Tiles of some rows by T grow as T, not as T x T.
  EXPECT_LE(bytes({1, 8192, 1, 1, 64}), 10 * one_head);
}

TEST(AttentionRules, NoDropoutAtProbabilityZero) {
  const AttentionProblem p({2, 33, 4, 2, 16});
  const FencedScratch scratch(p.shape);
  const Tensor out = filled({2, 33, 64}, kGarbage), lse = filled({2, 4, 33}, kGarbage);
  attention_forward(test_exec(), p.shape, out, lse, tensor_of(p.qkv, {2, 33, p.shape.packed_width()}), scratch.tensor());
  EXPECT_TRUE(same_bits(run_forward(p, p.qkv)[0], out));
}

// Columns [begin, begin + count) of each row.
Array columns_of(Input values, Count width, Count begin, Count count) {
  Array part;
  for (std::size_t row = 0; row < values.size(); row += static_cast<std::size_t>(width))
    part.insert(part.end(), values.begin() + static_cast<std::ptrdiff_t>(row) + begin,
                values.begin() + static_cast<std::ptrdiff_t>(row) + begin + count);
  return part;
}

// The half of the heads that one of two ranks has, dropped as they are in the whole model.
TEST(AttentionRules, SomeHeadsAreThoseOfTheWhole) {
  const AttentionProblem whole({2, 33, 4, 2, 16}, 0.2);
  const Array out = values_of(run_forward(whole, whole.qkv)[0]), dqkv = values_of(run_backward(whole));
  const Count hs = 16, packed = whole.shape.packed_width(), width = whole.shape.width();
  for (const Count half : {0, 1}) {
    const auto own_packed = [&](Input rows) {
      const Array q = columns_of(rows, packed, 2 * half * hs, 2 * hs), k = columns_of(rows, packed, (4 + half) * hs, hs),
                  v = columns_of(rows, packed, (6 + half) * hs, hs);
      Array own;
      for (Count row = 0; row < 2 * 33; ++row) {
        own.insert(own.end(), q.begin() + row * 2 * hs, q.begin() + (row + 1) * 2 * hs);
        own.insert(own.end(), k.begin() + row * hs, k.begin() + (row + 1) * hs);
        own.insert(own.end(), v.begin() + row * hs, v.begin() + (row + 1) * hs);
      }
      return own;
    };
    AttentionProblem part({2, 33, 2, 1, 16}, 0.2);
    part.qkv = own_packed(whole.qkv);
    part.dout = columns_of(whole.dout, width, 2 * half * hs, 2 * hs);
    part.forward.out = columns_of(whole.forward.out, width, 2 * half * hs, 2 * hs);
    part.forward.lse = columns_of(whole.forward.lse, 4 * 33, 2 * half * 33, 2 * 33);
    part.key.first_head = 2 * half;
    part.key.all_heads = 4;
    // A head's sums are the same ones; a product may take another order for another stride.
    EXPECT_TRUE(close(run_forward(part, part.qkv)[0], columns_of(out, width, 2 * half * hs, 2 * hs), 1e-5));
    EXPECT_TRUE(close(run_backward(part), own_packed(dqkv), 1e-5));
    part.key.first_head = 0;
    if (half == 1) {
      EXPECT_FALSE(close(run_forward(part, part.qkv)[0], columns_of(out, width, 2 * hs, 2 * hs), 1e-2));
    }
  }
}

TEST(AttentionRules, SameBitsEachTime) {
  for (const double dropout : {0.0, 0.2}) {
    const AttentionProblem p({2, 100, 4, 2, 32}, dropout);
    EXPECT_TRUE(repeats([&] { return run_forward(p, p.qkv); }));
    EXPECT_TRUE(repeats([&] { return std::vector<Tensor>{run_backward(p)}; }));
  }
}

TEST(AttentionRules, GradientIsTheSlopeOfTheOp) {
  for (const double dropout : {0.0, 0.2}) {
    const AttentionProblem p({1, 33, 4, 2, 16}, dropout);
    const auto loss = [&](Input qkv) { return dot(p.dout, values_of(run_forward(p, qkv)[0])); };
    EXPECT_TRUE(moves_along(values_of(run_backward(p)), p.qkv, loss));
    const AttentionProblem other({1, 33, 4, 2, 16}, dropout == 0.0 ? 0.2 : 0.0);
    EXPECT_FALSE(moves_along(values_of(run_backward(other)), p.qkv, loss));
  }
}

// Attention in which each token sees all others, before and after it.
Array unmasked(const AttentionProblem& p) {
  const Count tokens = p.shape.tokens, hs = p.shape.head_size;
  Array out(p.forward.out.size(), 0.0);
  for (Count b = 0; b < p.shape.batch; ++b) {
    for (Count h = 0; h < p.shape.heads; ++h) {
      const auto head = [&](Count index) { return reference::take_head(p.qkv, b, index, tokens, hs, p.shape.packed_width()); };
      const Array q = head(p.heads.query(h)), k = head(p.heads.key(h)), v = head(p.heads.value(h));
      Array result(tokens * hs, 0.0);
      for (Count i = 0; i < tokens; ++i) {
        const Input query = Input(q).subspan(i * hs, hs);
        Array weights;
        double total = 0.0;
        for (Count j = 0; j < tokens; ++j) {
          weights.push_back(std::exp(dot(query, Input(k).subspan(j * hs, hs)) / std::sqrt(p.head_size())));
          total += weights.back();
        }
        for (Count j = 0; j < tokens; ++j) {
          for (Count d = 0; d < hs; ++d) result[i * hs + d] += weights[j] / total * v[j * hs + d];
        }
      }
      reference::add_head(out, result, b, h, tokens, hs, p.shape.width());
    }
  }
  return out;
}

// The same rows of heads with those from `first` on, `count` of them, in reverse order: query heads then read other key heads.
Array with_heads_reversed(const AttentionProblem& p, Count first, Count count) {
  Array result(p.qkv);
  const Count hs = p.shape.head_size, width = p.shape.packed_width();
  for (Count row = 0; row < p.shape.batch * p.shape.tokens; ++row) {
    for (Count head = 0; head < count; ++head) {
      for (Count d = 0; d < hs; ++d)
        result[row * width + (first + head) * hs + d] = p.qkv[row * width + (first + count - 1 - head) * hs + d];
    }
  }
  return result;
}

TEST(AttentionRules, TheComparisonRejectsWrongAttention) {
  const AttentionProblem p({2, 33, 4, 2, 16}, 0.2);
  const Tensor out = run_forward(p, p.qkv)[0];
  const Array tolerance = p.out_tolerance();
  const auto rejects = [&](Input wrong) { return !close(out, wrong, tolerance); };
  ASSERT_FALSE(rejects(p.forward.out));
  Array unscaled = p.qkv;  // without 1 / sqrt(16): queries four times as large
  for (Count i = 0; i < static_cast<Count>(unscaled.size()); ++i)
    unscaled[i] *= i % p.shape.packed_width() < p.shape.width() ? 4.0 : 1.0;
  EXPECT_TRUE(rejects(reference::attention_forward(unscaled, p.heads, p.factors).out));
  EXPECT_TRUE(rejects(reference::attention_forward(with_heads_reversed(p, 4, 2), p.heads, p.factors).out));  // other key heads
  EXPECT_TRUE(rejects(reference::attention_forward(with_heads_reversed(p, 6, 2), p.heads, p.factors).out));  // other value heads
  EXPECT_TRUE(rejects(reference::attention_forward(p.qkv, p.heads).out));                                    // no dropout
  const std::vector<Count> places{0, 1};
  EXPECT_TRUE(
      rejects(reference::attention_forward(p.qkv, p.heads, reference::dropout_factors(0.2, 5, 6, 7, places, 4 * 33 * 33)).out));

  const AttentionProblem plain({2, 33, 4, 2, 16});
  EXPECT_FALSE(close(run_forward(plain, plain.qkv)[0], unmasked(plain), plain.out_tolerance()));
}

TEST(AttentionRules, TheComparisonRejectsWrongGradients) {
  const AttentionProblem p({2, 33, 4, 2, 16});
  const Tensor dqkv = run_backward(p);
  const Array tolerance = p.gradient_tolerance(), expected = p.expected_gradient();
  ASSERT_TRUE(close(dqkv, expected, tolerance));
  Array wrong = expected;  // dq and dk without 1 / sqrt(HS)
  for (Count i = 0; i < static_cast<Count>(wrong.size()); ++i) wrong[i] *= i % 128 < 96 ? 4.0 : 1.0;
  EXPECT_FALSE(close(dqkv, wrong, tolerance));
  wrong = expected;
  wrong[5 * 128 + 70] += 1e-3;  // one element of one key
  EXPECT_FALSE(close(dqkv, wrong, tolerance));

  // dv of one query head alone, where two share the value head.
  const Array factors_of_even_heads = [&] {
    Array factors(p.shape.batch * 4 * 33 * 33, 0.0);
    for (std::size_t i = 0; i < factors.size(); ++i) factors[i] = i / (33 * 33) % 2 == 0 ? 1.0 : 0.0;
    return factors;
  }();
  EXPECT_FALSE(close(dqkv, reference::attention_backward(p.dout, p.qkv, p.heads, factors_of_even_heads), tolerance));
}

}  // namespace
}  // namespace cohort::ops
