// Loops over several threads: the same bits as with one. Products of many rows are not here: the library chooses how to share
// them out.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "ops/activation.hpp"
#include "ops/adamw.hpp"
#include "ops/attention_problem.hpp"
#include "ops/cross_entropy.hpp"
#include "ops/embedding.hpp"
#include "ops/gemm.hpp"
#include "ops/host_loop.hpp"
#include "ops/norm.hpp"
#include "ops/pointwise.hpp"
#include "ops/row_product.hpp"

namespace cohort::ops {
namespace {

// Odd, and large enough for loops to take threads.
constexpr Count kRows = 301, kColumns = 201;
static_assert(kRows * kColumns >= kLeastOfThreads);

Tensor matrix(std::uint32_t stream) { return tensor_of(random_values(kRows * kColumns, stream), {kRows, kColumns}); }
Tensor row(std::uint32_t stream) { return tensor_of(random_values(kColumns, stream), {kColumns}); }
Tensor garbage(const Shape& shape) { return filled(shape, kGarbage); }

/// Whether `op`, which returns what it wrote, gives the same bits with 1, 2 and 3 threads.
::testing::AssertionResult same_with_threads(const std::function<std::vector<Tensor>()>& op) {
  set_gemm_threads(1);
  const std::vector<Tensor> alone = op();
  for (const int threads : {2, 3}) {
    set_gemm_threads(threads);
    const std::vector<Tensor> shared = op();
    set_gemm_threads(1);
    for (std::size_t i = 0; i < alone.size(); ++i) {
      if (!same_bits(alone[i], shared[i]))
        return ::testing::AssertionFailure() << "output " << i << " has other bits with " << threads << " threads";
    }
  }
  return ::testing::AssertionSuccess();
}

TEST(Threads, Norms) {
  const Tensor x = matrix(1), dout = matrix(2), weight = row(3), bias = row(4);
  EXPECT_TRUE(same_with_threads([&] {
    const Tensor out = garbage(x.shape()), mean = garbage({kRows}), rstd = garbage({kRows});
    layernorm_forward(test_exec(), out, mean, rstd, x, weight, bias, 1e-5f);
    const Tensor dx = matrix(5), dweight = row(6), dbias = row(7);
    layernorm_backward(test_exec(), dx, dweight, dbias, dout, x, weight, mean, rstd);
    return std::vector<Tensor>{out, mean, rstd, dx, dweight, dbias};
  }));
}

TEST(Threads, ActivationAndResidual) {
  const Tensor x = matrix(1), dout = matrix(2), bias = row(3);
  EXPECT_TRUE(same_with_threads([&] {
    const Tensor out = garbage(x.shape()), dx = garbage(x.shape()), dbias = row(4), sum = garbage(x.shape());
    gelu_forward(test_exec(), out, x, bias);
    gelu_backward(test_exec(), dx, dbias, dout, x, bias);
    add_residual(test_exec(), sum, x, out, bias);
    return std::vector<Tensor>{out, dx, dbias, sum};
  }));
}

TEST(Threads, EmbeddingAndLoss) {
  constexpr Count kWords = 50;
  const Tensor dout = matrix(1);
  const Indices<std::int32_t> tokens(random_indices(kRows, kWords, 2)), targets(random_indices(kRows, kColumns, 3));
  EXPECT_TRUE(same_with_threads([&] {
    const Tensor dtable = filled({kWords, kColumns}, 0.5f);
    embedding_backward(test_exec(), dtable, {}, tokens.span(), dout);
    const Tensor logits = matrix(4), loss = number_tensor(0.25);
    cross_entropy_forward_backward(test_exec(), loss, logits, kColumns, targets.span(), 0.1f);
    return std::vector<Tensor>{dtable, logits, loss};
  }));
}

TEST(Threads, AdamWAndTheNorm) {
  constexpr Count kElements = 70000;
  const auto values = [](std::uint32_t stream) { return tensor_of(random_values(kElements, stream), {kElements}); };
  const Tensor gradient = values(1);
  EXPECT_TRUE(same_with_threads([&] {
    const Tensor weight = values(2), m = values(3), v = filled({kElements}, 0.25f), squares = number_tensor(0.0);
    adamw(test_exec(), {weight, weight, m, v, gradient}, bytes_of<AdamWRange>({{0, kElements, 0.1f}}),
          {1e-3f, 0.9f, 0.95f, 1e-8f, 2}, bytes_of<OptimizerScalars>({{.gradient_scale = 0.5f}}));
    sum_of_squares(test_exec(), squares, gradient);
    return std::vector<Tensor>{weight, m, v, squares};
  }));
}

// Outputs are shared out, and some thread's part of them is no multiple of what is computed together.
TEST(Threads, RowProduct) {
  constexpr Count kOutputs = 401;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor weight = tensor_of_type(dtype, random_values(kOutputs * kColumns, 1), {kOutputs, kColumns});
    for (const Count rows : {1, 3}) {
      SCOPED_TRACE(fmt::format("{}, {} rows", name_of(dtype), rows));
      const Tensor x = tensor_of_type(dtype, random_values(rows * kColumns, 2), {rows, kColumns});
      EXPECT_TRUE(same_with_threads([&] {
        const Tensor y = tensor_of_type(dtype, Array(rows * kOutputs, kGarbage), {rows, kOutputs});
        row_product(test_exec(), y, x, weight, {}, {});
        return std::vector<Tensor>{y};
      }));
    }
  }
}

// Forward and backward: out, logarithms of the denominators, gradients.
std::vector<Tensor> attention_of(const AttentionProblem& p) {
  const AttentionShape& s = p.shape;
  const Tensor qkv = tensor_of(p.qkv, {s.batch * s.tokens, s.packed_width()}),
               dout = tensor_of(p.dout, {s.batch * s.tokens, s.width()});
  const FencedScratch scratch(s);
  const Tensor out = garbage(dout.shape()), lse = garbage({s.batch, s.heads, s.tokens}), dqkv = garbage(qkv.shape());
  attention_forward(test_exec(), s, out, lse, qkv, scratch.tensor(), p.key);
  attention_backward(test_exec(), s, dqkv, dout, out, lse, qkv, scratch.tensor(), p.key);
  return {out, lse, dqkv};
}

TEST(Threads, AttentionOfSharedHeadsWithDropout) {
  const AttentionProblem p({3, 65, 4, 2, 16}, 0.1);
  EXPECT_TRUE(same_with_threads([&] { return attention_of(p); }));
}

// Backward has one group of heads, which takes no thread of its own: products have them, and may add in another order.
TEST(Threads, AttentionOfFewerGroupsThanThreads) {
  const AttentionProblem p({1, 65, 4, 1, 16}, 0.1);
  const std::vector<Tensor> alone = attention_of(p);
  set_gemm_threads(3);
  const std::vector<Tensor> shared = attention_of(p);
  set_gemm_threads(1);
  constexpr double kTolerance = 1e-5;  // sums of up to 65 terms of about 1, in fp32
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(close(shared[i], values_of(alone[i]), kTolerance)) << "output " << i;
}

TEST(Threads, RunsCoverTheLoopOnce) {
  set_gemm_threads(3);
  for (const Count n : {0, 1, 2, 7}) {
    std::vector<int> visits(static_cast<std::size_t>(n), 0), of_thread(3, 0);
    for_runs(n, [&](Count begin, Count end, int thread) {
      ++of_thread[static_cast<std::size_t>(thread)];
      for (Count i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
    });
    EXPECT_EQ(visits, std::vector<int>(static_cast<std::size_t>(n), 1));
#ifdef _OPENMP
    EXPECT_EQ(of_thread, std::vector<int>(3, 1));
#endif
  }
  set_gemm_threads(1);
}

TEST(Threads, WhatABodyThrowsArrives) {
  set_gemm_threads(3);
  EXPECT_THROW(for_runs(3, [](Count begin, Count, int) { COHORT_CHECK(begin != 2, "planted"); }), Error);
  set_gemm_threads(1);
}

}  // namespace
}  // namespace cohort::ops
