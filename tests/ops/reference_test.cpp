// The references themselves: each backward is the derivative of its forward, by central differences in double precision, and each
// forward gives the values that can be worked out by hand.
#include <gtest/gtest.h>

#include "ops/finite_difference.hpp"
#include "ops/reference/activation.hpp"
#include "ops/reference/adamw.hpp"
#include "ops/reference/attention.hpp"
#include "ops/reference/cross_entropy.hpp"
#include "ops/reference/embedding.hpp"
#include "ops/reference/matmul.hpp"
#include "ops/reference/norm.hpp"
#include "ops/reference/partial_attention.hpp"
#include "ops/reference/pointwise.hpp"
#include "ops/reference/rope.hpp"

namespace cohort::ops::reference {
namespace {

constexpr double kEpsilon = 1e-5;

TEST(Reference, MatmulByHand) {
  const Array a{1, 2, 3, 4, 5, 6};     // [2, 3]
  const Array a_t{1, 4, 2, 5, 3, 6};   // its transpose
  const Array b{1, 0, 0, 1, 1, -1};    // [3, 2]
  const Array b_t{1, 0, 1, 0, 1, -1};  // its transpose
  const Array expected{4, -1, 10, -1};
  EXPECT_EQ(matmul(a, false, b, false, 2, 2, 3), expected);
  EXPECT_EQ(matmul(a_t, true, b, false, 2, 2, 3), expected);
  EXPECT_EQ(matmul(a, false, b_t, true, 2, 2, 3), expected);
  EXPECT_EQ(matmul(a_t, true, b_t, true, 2, 2, 3), expected);
}

TEST(Reference, MatmulGradientsAreProducts) {
  const Count m = 3, n = 4, k = 5;
  const Array a = random_values(m * k, 1), b = random_values(k * n, 2), dc = random_values(m * n, 3);
  EXPECT_TRUE(
      is_gradient(matmul(dc, false, b, true, m, k, n), a, [&](Input x) { return dot(dc, matmul(x, false, b, false, m, n, k)); }));
  EXPECT_TRUE(
      is_gradient(matmul(a, true, dc, false, k, n, m), b, [&](Input x) { return dot(dc, matmul(a, false, x, false, m, n, k)); }));
}

TEST(Reference, LayerNorm) {
  const Count rows = 3;
  // Not width 2: its normalised values are always close to +-1, so the gradient nearly vanishes and differences only see
  // rounding.
  for (const Count width : {3, 5, 8}) {
    const Array x = random_values(rows * width, 1, 2.0, 0.5), weight = random_values(width, 2, 0.5, 1.0),
                bias = random_values(width, 3);
    const Array dout = random_values(rows * width, 4);
    const auto loss = [&](Input x_, Input weight_, Input bias_) {
      return dot(dout, layernorm_forward(x_, weight_, bias_, rows, width, kEpsilon).out);
    };
    const NormBackward backward = layernorm_backward(dout, x, weight, rows, width, kEpsilon);
    EXPECT_TRUE(is_gradient(backward.dx, x, [&](Input v) { return loss(v, weight, bias); })) << width;
    EXPECT_TRUE(is_gradient(backward.dweight, weight, [&](Input v) { return loss(x, v, bias); })) << width;
    EXPECT_TRUE(is_gradient(backward.dbias, bias, [&](Input v) { return loss(x, weight, v); })) << width;
  }
}

TEST(Reference, LayerNormByHand) {
  const NormForward forward = layernorm_forward(Array{1, 3}, Array{1, 10}, Array{0, 5}, 1, 2, 0.0);
  EXPECT_EQ(forward.mean, Array{2});
  EXPECT_EQ(forward.rstd, Array{1});
  EXPECT_EQ(forward.out, (Array{-1, 15}));
}

TEST(Reference, RmsNorm) {
  const Count rows = 3;
  for (const Count width : {1, 5, 8}) {
    const Array x = random_values(rows * width, 1, 2.0, 0.5), weight = random_values(width, 2, 0.5, 1.0);
    const Array dout = random_values(rows * width, 4);
    // At width 1 the output is nearly the sign of x, and its slope nothing but epsilon: a larger one keeps it measurable.
    const double epsilon = width == 1 ? 0.5 : kEpsilon;
    const NormBackward backward = rmsnorm_backward(dout, x, weight, rows, width, epsilon);
    const auto loss = [&](Input x_, Input weight_) { return dot(dout, rmsnorm_forward(x_, weight_, rows, width, epsilon).out); };
    EXPECT_TRUE(is_gradient(backward.dx, x, [&](Input v) { return loss(v, weight); })) << width;
    EXPECT_TRUE(is_gradient(backward.dweight, weight, [&](Input v) { return loss(x, v); })) << width;
  }
  EXPECT_NEAR(rmsnorm_forward(Array{1, 7}, Array{5, 10}, 1, 2, 0.0).out[1], 14.0, 1e-12);  // root mean square 5
}

TEST(Reference, Activations) {
  const Count rows = 4, width = 3;
  Array x = random_values(rows * width, 1, 1.5);
  const Array bias = random_values(width, 2), dout = random_values(rows * width, 3);
  for (double& value : x) value += value > 0.0 ? 0.1 : -0.1;  // makes it unlikely that a sum lies at the kink of relu
  const auto check = [&](auto function, auto slope) {
    const ActivationBackward backward = activation_backward(dout, x, bias, rows, width, slope);
    const auto loss = [&](Input x_, Input bias_) { return dot(dout, activation_forward(x_, bias_, rows, width, function)); };
    EXPECT_TRUE(is_gradient(backward.dx, x, [&](Input v) { return loss(v, bias); }));
    EXPECT_TRUE(is_gradient(backward.dbias, bias, [&](Input v) { return loss(x, v); }));
  };
  check(gelu, gelu_slope);
  check(relu, relu_slope);
  check(silu, silu_slope);
}

TEST(Reference, ActivationsByHand) {
  EXPECT_NEAR(gelu(1.0), 0.8412, 1e-4);  // z Phi(z) = 0.8413; the tanh form differs in the fourth digit
  EXPECT_NEAR(gelu(-1.0), -0.1588, 1e-4);
  EXPECT_EQ(gelu(100.0), 100.0);
  EXPECT_NEAR(silu(1.0), 0.7310586, 1e-7);
  EXPECT_EQ(relu(-2.0), 0.0);
  EXPECT_EQ(relu(2.0), 2.0);
}

TEST(Reference, SwiGlu) {
  const Count rows = 3, width = 5;
  const Array x = random_values(rows * 2 * width, 1), dout = random_values(rows * width, 2);
  EXPECT_TRUE(
      is_gradient(swiglu_backward(dout, x, rows, width), x, [&](Input v) { return dot(dout, swiglu_forward(v, rows, width)); }));
  EXPECT_EQ(swiglu_forward(Array{0, 1, 3, 2}, 1, 2), (Array{0, 2 * silu(1.0)}));  // gates 0, 1; ups 3, 2
}

TEST(Reference, BiasAndResidual) {
  const Count rows = 3, width = 4;
  const Array x = random_values(rows * width, 1), y = random_values(rows * width, 2), bias = random_values(width, 3);
  const Array dout = random_values(rows * width, 4);
  EXPECT_TRUE(
      is_gradient(bias_backward(dout, rows, width), bias, [&](Input v) { return dot(dout, add_bias(x, v, rows, width)); }));
  EXPECT_TRUE(is_gradient(bias_backward(dout, rows, width), bias,
                          [&](Input v) { return dot(dout, add_residual(x, y, v, rows, width)); }));
  EXPECT_TRUE(is_gradient(dout, y, [&](Input v) { return dot(dout, add_residual(x, v, bias, rows, width)); }));
}

TEST(Reference, DropoutFactors) {
  const std::vector<Count> slots{5, 0};
  const Count elements = 4000;
  const double p = 0.25;
  const Array factors = dropout_factors(p, 1, 2, 3, slots, elements);
  ASSERT_EQ(factors.size(), 8000u);
  double mean = 0.0;
  for (const double factor : factors) {
    EXPECT_TRUE(factor == 0.0 || factor == 1.0 / (1.0 - p));
    mean += factor / 8000.0;
  }
  // Each factor has variance p / (1 - p) = 1/3: the mean of 8000 deviates by 0.0065. Five deviations.
  EXPECT_NEAR(mean, 1.0, 0.033);
  // A sample has the same mask wherever it is computed, and other samples, layers and steps have others.
  const std::vector<Count> alone{0};
  const Array second(factors.begin() + elements, factors.end());
  EXPECT_EQ(dropout_factors(p, 1, 2, 3, alone, elements), second);
  EXPECT_NE(Array(factors.begin(), factors.begin() + elements), second);
  EXPECT_NE(dropout_factors(p, 1, 2, 4, alone, elements), second);
  EXPECT_NE(dropout_factors(p, 1, 3, 3, alone, elements), second);
  EXPECT_NE(dropout_factors(p, 2, 2, 3, alone, elements), second);
}

TEST(Reference, Attention) {
  for (const Count kv_heads : {1, 2, 4}) {
    for (const bool drops : {false, true}) {
      const Heads s{2, 5, 4, kv_heads, 4};
      const std::vector<Count> slots{3, 1};
      const Array factors = drops ? dropout_factors(0.3, 1, 2, 3, slots, s.heads * s.tokens * s.tokens) : Array{};
      const Array qkv = random_values(s.batch * s.tokens * s.packed_width(), 1);
      const Array dout = random_values(s.batch * s.tokens * s.heads * s.head_size, 2);
      EXPECT_TRUE(is_gradient(attention_backward(dout, qkv, s, factors), qkv,
                              [&](Input v) { return dot(dout, attention_forward(v, s, factors).out); }))
          << kv_heads << " key heads, dropout " << drops;
    }
  }
}

TEST(Reference, AttentionOfSeparateDocuments) {
  const Heads s{2, 6, 4, 2, 4};
  const std::vector<Count> slots{3, 1};
  const std::vector<std::int32_t> first_keys{0, 0, 2, 2, 2, 5, 0, 1, 1, 1, 1, 1};
  const Array factors = dropout_factors(0.3, 1, 2, 3, slots, s.heads * s.tokens * s.tokens);
  const Array qkv = random_values(s.batch * s.tokens * s.packed_width(), 1);
  const Array dout = random_values(s.batch * s.tokens * s.heads * s.head_size, 2);
  EXPECT_TRUE(is_gradient(attention_backward(dout, qkv, s, factors, first_keys), qkv,
                          [&](Input v) { return dot(dout, attention_forward(v, s, factors, first_keys).out); }));
  // Tokens 2 to 4 of the first sample are a document: they get what they get as a sample of their own.
  const Heads alone{1, 3, 4, 2, 4};
  const Count packed = s.packed_width(), width = s.heads * s.head_size;
  const Array own(qkv.begin() + 2 * packed, qkv.begin() + 5 * packed);
  const Array of_packed = attention_forward(qkv, s, {}, first_keys).out;
  EXPECT_EQ(attention_forward(own, alone).out, Array(of_packed.begin() + 2 * width, of_packed.begin() + 5 * width));
}

TEST(Reference, BlocksOfKeysMakeUpTheWhole) {
  constexpr Count kTokens = 7, kSize = 4;
  const Array q = random_values(kTokens * kSize, 1), k = random_values(kTokens * kSize, 2), v = random_values(kTokens * kSize, 3);
  const Array dout = random_values(kTokens * kSize, 4);
  const HeadForward head = head_forward(q, k, v, kTokens, kSize);
  const HeadBackward expected = head_backward(dout, q, k, v, kTokens, kSize);
  BlockForward merged{Array(kTokens * kSize, 0.0), Array(kTokens, -std::numeric_limits<double>::infinity())};
  const BlockForward whole{head.out, head.lse};
  BlockBackward gradient{Array(kTokens * kSize, 0.0), {}, {}};
  for (const Count first : {3, 0, 2}) {  // keys 3 to 6, 0 and 1, 2
    const Block block{kTokens, first == 3 ? Count{4} : first == 0 ? Count{2} : Count{1}, 0, first, kSize};
    const auto part = [&](Input rows) { return rows.subspan(first * kSize, block.keys * kSize); };
    merged = merge(merged, block_forward(q, part(k), part(v), block));
    const BlockBackward one = block_backward(dout, whole, q, part(k), part(v), block);
    gradient.dq = sum(gradient.dq, one.dq);
    for (std::size_t i = 0; i < one.dk.size(); ++i) {
      EXPECT_NEAR(one.dk[i], expected.dk[first * kSize + i], 1e-12);
      EXPECT_NEAR(one.dv[i], expected.dv[first * kSize + i], 1e-12);
    }
  }
  for (std::size_t i = 0; i < merged.out.size(); ++i) {
    EXPECT_NEAR(merged.out[i], head.out[i], 1e-12);
    EXPECT_NEAR(merged.lse[i / kSize], head.lse[i / kSize], 1e-12);
    EXPECT_NEAR(gradient.dq[i], expected.dq[i], 1e-12);
  }
}

TEST(Reference, AttentionByHand) {
  // One head of size 1, two tokens: scores of the second row are 0 and log 3, so its weights are 1/4 and 3/4.
  const double log3 = std::log(3.0);
  const HeadForward head = head_forward(Array{2, 1}, Array{0, log3}, Array{4, 8}, 2, 1);
  EXPECT_NEAR(head.out[0], 4.0, 1e-12);  // sees itself alone
  EXPECT_NEAR(head.out[1], 7.0, 1e-12);
  EXPECT_NEAR(head.lse[1], std::log(4.0), 1e-12);
  // Query heads 0, 1 read key head 0, which is head 4 of the packed row; 2, 3 read the next.
  const Heads s{1, 1, 4, 2, 1};
  EXPECT_EQ((std::vector<Count>{s.key(0), s.key(1), s.key(2), s.key(3)}), (std::vector<Count>{4, 4, 5, 5}));
  EXPECT_EQ(s.value(3), 7);
}

TEST(Reference, Rope) {
  const Heads s{2, 5, 2, 1, 6};
  const Array qkv = random_values(s.batch * s.tokens * s.packed_width(), 1),
              dout = random_values(s.batch * s.tokens * s.packed_width(), 2);
  EXPECT_TRUE(is_gradient(rope(dout, s, 100.0, -1), qkv, [&](Input v) { return dot(dout, rope(v, s, 100.0, +1)); }));
}

TEST(Reference, RopeMakesScoresDependOnDistanceAlone) {
  // The same query and key at each position: after the rotation q_i . k_j is a function of i - j.
  const Heads s{1, 6, 1, 1, 4};
  const Array row = random_values(s.packed_width(), 1);
  Array qkv;
  for (Count t = 0; t < s.tokens; ++t) qkv.insert(qkv.end(), row.begin(), row.end());
  const Array turned = rope(qkv, s, 10.0, +1);
  const Array q = take_head(turned, 0, 0, s.tokens, s.head_size, s.packed_width());
  const Array k = take_head(turned, 0, 1, s.tokens, s.head_size, s.packed_width());
  const Array scores = matmul(q, false, k, true, s.tokens, s.tokens, s.head_size);
  for (Count t = 1; t + 2 < s.tokens; ++t) EXPECT_NEAR(scores[(t + 2) * s.tokens + t], scores[2 * s.tokens], 1e-12);
  EXPECT_GT(std::abs(scores[2 * s.tokens] - scores[1 * s.tokens]), 1e-3);
}

TEST(Reference, Embedding) {
  const Count vocabulary = 4, positions = 3, width = 2;
  const std::vector<std::int32_t> tokens{1, 3, 1, 0, 1, 1}, places{0, 1, 2, 0, 1, 2};
  const Array table = random_values(vocabulary * width, 1), position = random_values(positions * width, 2),
              dout = random_values(12, 3);
  EXPECT_TRUE(is_gradient(table_backward(tokens, dout, vocabulary, width), table,
                          [&](Input v) { return dot(dout, embedding_forward(tokens, v, position, width)); }));
  EXPECT_TRUE(is_gradient(table_backward(places, dout, positions, width), position,
                          [&](Input v) { return dot(dout, embedding_forward(tokens, table, v, width)); }));
  EXPECT_EQ(embedding_forward(tokens, table, {}, width)[2], table[6]);
}

TEST(Reference, CrossEntropy) {
  const Count vocabulary = 5;
  const std::vector<std::int32_t> targets{4, -1, 0};
  const Array logits = random_values(3 * vocabulary, 1, 2.0);
  EXPECT_TRUE(is_gradient(cross_entropy(logits, targets, vocabulary, 0.5).dlogits, logits,
                          [&](Input v) { return 0.5 * cross_entropy(v, targets, vocabulary, 0.5).loss; }));
  EXPECT_NEAR(cross_entropy(Array(15, 7.0), targets, vocabulary, 1.0).loss, 2.0 * std::log(5.0), 1e-12);  // two rows count
  EXPECT_NEAR(cross_entropy(Array{1e4, -1e4}, std::vector<std::int32_t>{1}, 2, 1.0).loss, 2e4, 1e-8);
}

TEST(Reference, AdamWByHand) {
  // In the first step the corrections make m_hat the gradient and v_hat its square: the weight moves by the learning rate.
  AdamWState state{{2.0}, {0.0}, {0.0}};
  adamw(state, Array{-8.0}, {0.1, 0.9, 0.99, 0.0, 0.5, 0.5, 1});
  EXPECT_NEAR(state.m[0], -0.4, 1e-12);  // 0.1 * (0.5 * -8)
  EXPECT_NEAR(state.v[0], 0.16, 1e-12);  // 0.01 * 16
  EXPECT_NEAR(state.weight[0], 2.0 - 0.1 * (-1.0 + 0.5 * 2.0), 1e-12);
  EXPECT_EQ(sum_of_squares(Array{3, 4}), 25.0);
}

TEST(Reference, TheCheckRejectsWrongGradients) {
  const Array x = random_values(6, 1), dout = random_values(6, 2);
  const auto loss = [&](Input v) { return dot(dout, activation_forward(v, Array(6, 0.0), 1, 6, gelu)); };
  Array gradient = activation_backward(dout, x, Array(6, 0.0), 1, 6, gelu_slope).dx;
  EXPECT_TRUE(is_gradient(gradient, x, loss));
  gradient[3] *= 1.00001;
  gradient[3] += 1e-5;
  EXPECT_FALSE(is_gradient(gradient, x, loss));
  EXPECT_FALSE(is_gradient(dout, x, loss));  // the slope forgotten
}

}  // namespace
}  // namespace cohort::ops::reference
