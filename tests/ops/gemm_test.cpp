// gemm against the triple loop: all transposes, strides, alpha and beta, sizes down to nothing.
#include "ops/gemm.hpp"

#include <gtest/gtest.h>

#include <numbers>

#include "ops/padded.hpp"
#include "ops/reference/matmul.hpp"

namespace cohort::ops {
namespace {

struct Case {
  Count m, n, k;
  bool transpose_a = false, transpose_b = false;
  Count padding = 0;
  float alpha = 1.0f, beta = 0.0f;
};

std::string describe(const Case& c) {
  return fmt::format("m {} n {} k {}, transposed {} {}, padding {}, alpha {}, beta {}", c.m, c.n, c.k, c.transpose_a,
                     c.transpose_b, c.padding, c.alpha, c.beta);
}

Transpose as_transpose(bool transpose) { return transpose ? Transpose::yes : Transpose::no; }

// |op(A)| |op(B)|: the sum of the sizes of the terms of each element of C.
Array sizes_of_terms(Array a, Array b, const Case& c) {
  for (double& value : a) value = std::abs(value);
  for (double& value : b) value = std::abs(value);
  return reference::matmul(a, c.transpose_a, b, c.transpose_b, c.m, c.n, c.k);
}

void check(const Case& c) {
  SCOPED_TRACE(describe(c));
  const Array a = random_values(c.m * c.k, 1), b = random_values(c.k * c.n, 2);
  // beta = 0 must not read C: NaN times 0 would be NaN.
  const Array before = c.beta == 0.0f ? Array(c.m * c.n, kGarbage) : random_values(c.m * c.n, 3);
  const Padded padded_a(a, c.transpose_a ? c.k : c.m, c.transpose_a ? c.m : c.k, c.padding);
  const Padded padded_b(b, c.transpose_b ? c.n : c.k, c.transpose_b ? c.k : c.n, c.padding);
  const Padded padded_c(before, c.m, c.n, c.padding);
  gemm(Exec{}, padded_c.view, padded_a.view, as_transpose(c.transpose_a), padded_b.view, as_transpose(c.transpose_b), c.alpha,
       c.beta);

  Array expected = reference::matmul(a, c.transpose_a, b, c.transpose_b, c.m, c.n, c.k);
  Array tolerance = sizes_of_terms(a, b, c);
  for (Count i = 0; i < c.m * c.n; ++i) {
    const double old = c.beta == 0.0f ? 0.0 : c.beta * before[i];
    expected[i] = c.alpha * expected[i] + old;
    tolerance[i] = sum_error(c.k) * (std::abs(c.alpha) * tolerance[i] + std::abs(old));
  }
  EXPECT_TRUE(close(padded_c.values(), expected, tolerance));
  EXPECT_TRUE(padded_a.padding_untouched() && padded_b.padding_untouched() && padded_c.padding_untouched());
}

void check_all_transposes(Case c) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      c.transpose_a = transpose_a;
      c.transpose_b = transpose_b;
      check(c);
    }
  }
}

TEST(Gemm, SmallSizes) {
  for (const Count m : {0, 1, 2, 3, 17}) {
    for (const Count n : {0, 1, 2, 3, 17}) {
      for (const Count k : {0, 1, 2, 3, 17}) check_all_transposes({m, n, k});
    }
  }
}

TEST(Gemm, LargerAndOddSizes) {
  check_all_transposes({33, 65, 130});
  check_all_transposes({130, 1, 257});
  check_all_transposes({1, 257, 64});
  check_all_transposes({64, 64, 64});
  check_all_transposes({127, 129, 1});
}

TEST(Gemm, RowsFartherApartThanTheyAreLong) {
  for (const Count padding : {1, 13}) {
    check_all_transposes({17, 33, 65, false, false, padding});
    check_all_transposes({1, 3, 2, false, false, padding});
    check_all_transposes({3, 5, 0, false, false, padding});
    check_all_transposes({17, 33, 65, false, false, padding, 0.5f, 1.0f});
  }
}

TEST(Gemm, AlphaAndBeta) {
  for (const float alpha : {1.0f, -0.5f, 0.0f}) {
    for (const float beta : {0.0f, 1.0f, 2.0f}) {
      check_all_transposes({17, 33, 65, false, false, 0, alpha, beta});
      check_all_transposes({3, 5, 0, false, false, 0, alpha, beta});  // no terms: C = beta C
    }
  }
}

// From 2^29 multiplications on, C += A^T B may be another kernel. Halves of it, which are not, say what is right: the triple loop
// would take seconds.
void check_against_halves(float beta, Count padding, int threads) {
  SCOPED_TRACE(fmt::format("beta {}, padding {}, {} threads", beta, padding, threads));
  constexpr Count kM = 522, kN = 515, kK = 2050;  // of no kernel's tiles and blocks a multiple
  static_assert(kM * kN * kK >= Count{1} << 29 && kM / 2 * kN * kK < Count{1} << 29);
  const Array before = random_values(kM * kN, 3);
  const Padded a(random_values(kK * kM, 1), kK, kM, padding), b(random_values(kK * kN, 2), kK, kN, padding);
  const Padded whole(beta == 0.0f ? Array(kM * kN, kGarbage) : before, kM, kN, padding), halves(before, kM, kN, padding);
  set_gemm_threads(threads);
  gemm(Exec{}, whole.view, a.view, Transpose::yes, b.view, Transpose::no, 1.0f, beta);
  set_gemm_threads(1);
  for (Count half = 0; half < 2; ++half) {
    MatrixView rows_of_c = halves.view, columns_of_a = a.view;
    rows_of_c.rows = columns_of_a.columns = kM / 2;
    rows_of_c.data += half * kM / 2 * rows_of_c.stride;
    columns_of_a.data += half * kM / 2;
    gemm(Exec{}, rows_of_c, columns_of_a, Transpose::yes, b.view, Transpose::no, 1.0f, beta);
  }
  // Sums of products of two normal numbers, of which |a b| is 2 / pi on average; both sides round.
  const double size = 2.0 / std::numbers::pi * static_cast<double>(kK);
  EXPECT_TRUE(close(whole.values(), halves.values(), Array{2.0 * sum_error(kK) * size}));
  EXPECT_TRUE(whole.padding_untouched());
}

TEST(Gemm, LargeGradientsOfWeights) {
  for (const float beta : {0.0f, 1.0f}) {
    for (const Count padding : {0, 3}) check_against_halves(beta, padding, 1);
  }
  check_against_halves(1.0f, 3, 3);
}

TEST(Gemm, TensorsAsMatrices) {
  const Tensor tensor = filled({2, 3, 5}, 1.0f);
  const MatrixView view = as_matrix(tensor);
  EXPECT_EQ(view.data, tensor.f32());
  EXPECT_EQ(view.rows, 6);
  EXPECT_EQ(view.columns, 5);
  EXPECT_EQ(view.stride, 5);
}

TEST(Gemm, SameBitsEachTime) {
  const Tensor a = tensor_of(random_values(130 * 257, 1), {130, 257}), b = tensor_of(random_values(257 * 65, 2), {257, 65});
  EXPECT_TRUE(repeats([&] {
    const Tensor c = filled({130, 65}, kGarbage);
    gemm(Exec{}, as_matrix(c), as_matrix(a), Transpose::no, as_matrix(b), Transpose::no);
    return std::vector<Tensor>{c};
  }));
}

TEST(Gemm, BackendSaysWhatItIs) {
  EXPECT_FALSE(gemm_backend().empty());
  set_gemm_threads(1);
  check({33, 17, 65});
}

TEST(Gemm, ShapesThatDoNotFitAreRefused) {
  const Tensor a = filled({3, 4}, 1.0f), b = filled({5, 6}, 1.0f), c = filled({3, 6}, 0.0f);
  EXPECT_THROW(gemm(Exec{}, as_matrix(c), as_matrix(a), Transpose::no, as_matrix(b), Transpose::no), Error);
}

TEST(Gemm, TheComparisonRejectsWrongProducts) {
  const Case c{17, 33, 65};
  const Array a = random_values(c.m * c.k, 1), b = random_values(c.k * c.n, 2);
  const Tensor product = filled({c.m, c.n}, kGarbage);
  gemm(Exec{}, as_matrix(product), as_matrix(tensor_of(a, {c.m, c.k})), Transpose::no, as_matrix(tensor_of(b, {c.k, c.n})),
       Transpose::no);
  Array expected = reference::matmul(a, false, b, false, c.m, c.n, c.k);
  Array tolerance = sizes_of_terms(a, b, c);
  for (double& value : tolerance) value *= sum_error(c.k);
  EXPECT_TRUE(close(product, expected, tolerance));

  Array off = expected;
  off[100] += 1e-3;  // of terms whose sizes sum to about 40: as if one were rounded to bf16
  EXPECT_FALSE(close(product, off, tolerance));
  EXPECT_FALSE(close(product, reference::matmul(a, true, b, false, c.m, c.n, c.k), tolerance));  // A read as its transpose
  EXPECT_FALSE(close(product, reference::matmul(a, false, b, true, c.m, c.n, c.k), tolerance));  // B read as its transpose
  EXPECT_FALSE(close(product, sum(expected, expected), tolerance));                              // counted twice
  EXPECT_FALSE(close(filled({c.m, c.n}, kGarbage), expected, tolerance));                        // not written
}

}  // namespace
}  // namespace cohort::ops
