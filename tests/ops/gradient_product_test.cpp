// Our own C += A^T B against the triple loop, at sizes around those of its tiles and blocks: with the processor's tile kernel,
// and on every processor with a plain one, whose bits are the same.
#include "ops/cpu/gradient_product.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "ops/padded.hpp"
#include "ops/plain_tile_kernel.hpp"
#include "ops/reference/matmul.hpp"

namespace cohort::ops {
namespace {

constexpr Count kBetween = 5;  // elements between rows
// Of C: panels are filled up with zeros, so what a kernel writes beside its tile is what was there, + 0. Rows of one tile.
constexpr Around kAroundC{kBetween, cpu::kTileRows, -0.0f};

struct Problem {
  Problem(Count rows, Count columns, Count k)
      : m(rows),
        n(columns),
        terms(k),
        values_a(random_values(k * m, 1)),
        values_b(random_values(k * n, 2)),
        values_c(random_values(m * n, 3)),
        a(values_a, k, m, kBetween),
        b(values_b, k, n, kBetween) {}
  Padded c() const { return {values_c, m, n, kAroundC}; }
  Padded product(cpu::TileKernel kernel) const {
    const Padded result = c();
    cpu::add_gradient_product(kernel, result.view, a.view, b.view);
    return result;
  }

  Count m, n, terms;
  Array values_a, values_b, values_c;
  Padded a, b;
};

class GradientProduct : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (kernel() == nullptr) GTEST_SKIP() << "this processor has no kernel for it";
  }
  void TearDown() override { set_gemm_threads(1); }
  static cpu::TileKernel kernel() { return GetParam() ? cpu::tile_kernel() : plain_kernel; }

  static void check_product(Count m, Count n, Count k) {
    SCOPED_TRACE(fmt::format("m {} n {} k {}", m, n, k));
    Problem p(m, n, k);
    const Padded product = p.product(kernel());
    const Array expected = sum(p.values_c, reference::matmul(p.values_a, true, p.values_b, false, m, n, k));
    for (Array* values : {&p.values_a, &p.values_b, &p.values_c}) {
      for (double& value : *values) value = std::abs(value);
    }
    Array tolerance = sum(p.values_c, reference::matmul(p.values_a, true, p.values_b, false, m, n, k));  // the sizes of all terms
    for (double& value : tolerance) value *= sum_error(k);
    EXPECT_TRUE(close(product.values(), expected, tolerance));
    EXPECT_TRUE(product.padding_untouched());
  }
};

INSTANTIATE_TEST_SUITE_P(Kernel, GradientProduct, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "OfTheProcessor" : "Plain"; });

TEST_P(GradientProduct, SizesAroundTiles) {
  for (const Count m : {1, 7, 8, 9, 17}) {
    for (const Count n : {1, 15, 16, 17, 47, 48, 49, 97}) {
      for (const Count k : {1, 3, 4, 5}) check_product(m, n, k);
    }
  }
}

// Of 384 rows and 384 terms; of columns a block has from 144 to 768, as the processor's cache is large.
TEST_P(GradientProduct, SizesAroundBlocks) {
  check_product(385, 33, 385);
  check_product(13, 769, 400);
  check_product(397, 801, 5);
}

TEST_P(GradientProduct, SameBitsWithAnyNumberOfThreads) {
  for (const auto& [m, n] : {std::pair<Count, Count>{301, 201}, {201, 301}, {5, 40}}) {
    const Problem p(m, n, 401);
    const Array alone = p.product(kernel()).values();
    for (const int threads : {2, 3, 5}) {
      set_gemm_threads(threads);
      const Padded shared = p.product(kernel());
      EXPECT_EQ(shared.values(), alone) << m << " x " << n << ", " << threads << " threads";
      EXPECT_TRUE(shared.padding_untouched());
    }
    set_gemm_threads(1);
  }
}

TEST_P(GradientProduct, BitsAreThoseOfThePlainKernel) {
  const Problem p(37, 71, 401);
  EXPECT_EQ(p.product(kernel()).values(), p.product(plain_kernel).values());
}

// Without it nobody would see that gemm had ceased to use the kernel. sgemm's sums have another order.
TEST(GradientsByGemm, AreThoseOfTheKernel) {
  if (cpu::tile_kernel() == nullptr) GTEST_SKIP() << "this processor has no kernel for it";
  for (const char* limit : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    if (std::getenv(limit) != nullptr) GTEST_SKIP() << limit << " is set";
  }
  const Problem p(522, 515, 2050);
  const Array direct = p.product(cpu::tile_kernel()).values();
  for (const int threads : {1, 3}) {
    set_gemm_threads(threads);
    const Padded by_gemm = p.c();
    gemm(Exec{}, by_gemm.view, p.a.view, Transpose::yes, p.b.view, Transpose::no, 1.0f, 1.0f);
    set_gemm_threads(1);
    EXPECT_EQ(by_gemm.values(), direct) << threads << " threads";
  }
}

// 522 rows are 66 tiles, 515 columns 11: 4 of them for each of 16 threads.
TEST(EnoughTiles, AreSomeForEachThread) {
  const Padded c(Array(522 * 515), 522, 515, 0), across(Array(8 * 1536), 8, 1536, 0);
  EXPECT_TRUE(cpu::enough_tiles(c.view, 1));
  EXPECT_TRUE(cpu::enough_tiles(c.view, 16));
  EXPECT_FALSE(cpu::enough_tiles(c.view, 17));
  EXPECT_TRUE(cpu::enough_tiles(across.view, 8));
  EXPECT_FALSE(cpu::enough_tiles(across.view, 9));
}

}  // namespace
}  // namespace cohort::ops
