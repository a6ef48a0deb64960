// Our own C += A^T B against the triple loop, at sizes around those of its tiles and blocks. Where the processor has no kernel
// for it, gemm_test.cpp tests what runs instead.
#include "ops/cpu/gradient_product.hpp"

#include <gtest/gtest.h>

#include "ops/padded.hpp"
#include "ops/reference/matmul.hpp"

namespace cohort::ops {
namespace {

constexpr Count kBetween = 5;  // elements between rows

class GradientProduct : public ::testing::Test {
 protected:
  void SetUp() override {
    const Padded one(Array{0.0}, 1, 1, 0);
    if (!cpu::add_gradient_product(one.view, one.view, one.view)) GTEST_SKIP() << "this processor has no kernel for it";
  }
  void TearDown() override { set_gemm_threads(1); }
};

void check_product(Count m, Count n, Count k) {
  SCOPED_TRACE(fmt::format("m {} n {} k {}", m, n, k));
  Array a = random_values(k * m, 1), b = random_values(k * n, 2), c = random_values(m * n, 3);
  const Padded padded_a(a, k, m, kBetween), padded_b(b, k, n, kBetween), padded_c(c, m, n, kBetween);
  ASSERT_TRUE(cpu::add_gradient_product(padded_c.view, padded_a.view, padded_b.view));
  const Array expected = sum(c, reference::matmul(a, true, b, false, m, n, k));
  for (Array* values : {&a, &b, &c}) {
    for (double& value : *values) value = std::abs(value);
  }
  Array tolerance = sum(c, reference::matmul(a, true, b, false, m, n, k));  // the sizes of all terms
  for (double& value : tolerance) value *= sum_error(k);
  EXPECT_TRUE(close(padded_c.values(), expected, tolerance));
  EXPECT_TRUE(padded_c.padding_untouched());
}

TEST_F(GradientProduct, SizesAroundTiles) {
  for (const Count m : {1, 11, 12, 13, 25}) {
    for (const Count n : {1, 15, 16, 17, 31, 32, 33, 65}) {
      for (const Count k : {1, 7, 8, 9}) check_product(m, n, k);
    }
  }
}

TEST_F(GradientProduct, SizesAroundBlocks) {
  check_product(385, 33, 385);  // of 384 rows and 384 terms
  check_product(13, 769, 400);  // of 768 columns
  check_product(397, 801, 5);
}

TEST_F(GradientProduct, SameBitsWithAnyNumberOfThreads) {
  constexpr Count kTerms = 401;
  for (const auto& [m, n] : {std::pair<Count, Count>{301, 201}, {201, 301}, {5, 40}}) {
    const Padded a(random_values(kTerms * m, 1), kTerms, m, kBetween), b(random_values(kTerms * n, 2), kTerms, n, kBetween);
    Array alone;
    for (const int threads : {1, 2, 3, 5}) {
      set_gemm_threads(threads);
      const Padded c(random_values(m * n, 3), m, n, kBetween);
      ASSERT_TRUE(cpu::add_gradient_product(c.view, a.view, b.view));
      if (threads == 1) alone = c.values();
      EXPECT_EQ(c.values(), alone) << m << " x " << n << ", " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace cohort::ops
