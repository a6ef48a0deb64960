// The products of attention's tiles against the triple loop: with the processor's tile kernel, on every processor with a plain
// one, and by the library.
#include "ops/cpu/attention_products.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/padded.hpp"
#include "ops/plain_tile_kernel.hpp"
#include "ops/reference/matmul.hpp"

namespace cohort::ops {
namespace {

constexpr Count kApart = 5;  // elements between rows
constexpr Count kTestQueries = 21, kTestKeys = 101;
// Tiles of 16, of 2 x 32, of 48 + 32, and of 3 x 48 columns.
constexpr Count kHeadSizes[] = {16, 64, 80, 144};

enum class By { tile_kernel, plain_kernel, library };

class AttentionProducts : public ::testing::TestWithParam<By> {
 protected:
  void SetUp() override {
    // Some queries begin a document, one sees nothing, and the last ones see all keys. Of a third panel, which begins at key 96,
    // the second eight see one key.
    for (Count i = 0; i < kTestQueries; ++i) {
      begin_.push_back(i < 7 ? 0 : i < 12 ? 35 : i == 12 ? 66 : 70);
      end_.push_back(i <= 12 ? 30 + 3 * i : std::min(kTestKeys, 37 + 4 * i));
    }
    if (GetParam() == By::tile_kernel && cpu::tile_kernel() == nullptr) GTEST_SKIP() << "this processor has no kernel for it";
  }

  static cpu::TileKernel kernel() {
    if (GetParam() == By::library) return nullptr;
    return GetParam() == By::plain_kernel ? plain_kernel : cpu::tile_kernel();
  }
  SeenKeys seen() const { return {begin_.data(), end_.data()}; }
  bool sees(Count i, Count j) const { return j >= begin_[i] && j < end_[i]; }
  Array weights() const {
    Array w = random_values(kTestQueries * kTestKeys, 1);
    for (Count i = 0; i < kTestQueries * kTestKeys; ++i) {
      if (!sees(i / kTestKeys, i % kTestKeys)) w[i] = 0.0;
    }
    return w;
  }

  std::vector<Count> begin_, end_;
};

INSTANTIATE_TEST_SUITE_P(By, AttentionProducts, ::testing::Values(By::tile_kernel, By::plain_kernel, By::library),
                         [](const auto& of) {
                           return of.param == By::library ? "Library" : of.param == By::plain_kernel ? "Plain" : "OfTheProcessor";
                         });

Array sizes_of(Array values) {
  for (double& value : values) value = std::abs(value);
  return values;
}

TEST_P(AttentionProducts, ScoresOfSeenKeys) {
  ASSERT_EQ(begin_[12], end_[12]);
  for (const Count head_size : kHeadSizes) {
    const Array a_values = random_values(kTestQueries * head_size, 1), b_values = random_values(kTestKeys * head_size, 2);
    const Padded a(a_values, kTestQueries, head_size, kApart), b(b_values, kTestKeys, head_size, kApart);
    const Padded c(Array(kTestQueries * kTestKeys, kGarbage), kTestQueries, kTestKeys, kApart);
    std::vector<float> packed(packed_key_elements(kTestKeys, head_size));
    pack_keys(packed.data(), b.view);
    scores(Exec{}, kernel(), seen(), c.view, a.view, b.view, packed.data());
    Array actual = c.values(), expected = reference::matmul(a_values, false, b_values, true, kTestQueries, kTestKeys, head_size);
    Array tolerance = reference::matmul(sizes_of(a_values), false, sizes_of(b_values), true, kTestQueries, kTestKeys, head_size);
    for (Count i = 0; i < kTestQueries * kTestKeys; ++i) {
      if (!sees(i / kTestKeys, i % kTestKeys)) actual[i] = expected[i];
      tolerance[i] *= sum_error(head_size);
    }
    EXPECT_TRUE(close(actual, expected, tolerance)) << head_size;
    EXPECT_TRUE(c.padding_untouched());
  }
}

TEST_P(AttentionProducts, SumsOverKeysAndOverQueries) {
  const Array w_values = weights();
  const Padded w(w_values, kTestQueries, kTestKeys, kApart);
  for (const Count head_size : kHeadSizes) {
    for (const bool of_keys : {true, false}) {
      for (const bool add : {false, true}) {
        SCOPED_TRACE(fmt::format("head size {}, sums over {}, add {}", head_size, of_keys ? "keys" : "queries", add));
        const Count rows = of_keys ? kTestQueries : kTestKeys, terms = of_keys ? kTestKeys : kTestQueries;
        const Array b_values = random_values(terms * head_size, 2), c_values = random_values(rows * head_size, 3);
        const Padded b(b_values, terms, head_size, kApart);
        const Padded c(add ? c_values : Array(rows * head_size, kGarbage), rows, head_size, kApart);
        (of_keys ? times_keys : times_queries)(Exec{}, kernel(), seen(), c.view, w.view, b.view, add);
        const auto expected = [&](const Array& left, const Array& right, const Array& before) {
          Array sum = reference::matmul(left, !of_keys, right, false, rows, head_size, terms);
          for (Count i = 0; add && i < rows * head_size; ++i) sum[i] += before[i];
          return sum;
        };
        Array tolerance = expected(sizes_of(w_values), sizes_of(b_values), sizes_of(c_values));
        for (double& value : tolerance) value *= sum_error(terms + 1);
        EXPECT_TRUE(close(c.values(), expected(w_values, b_values, c_values), tolerance));
        EXPECT_TRUE(c.padding_untouched());
      }
    }
  }
}

// Without it nobody would see that attention had ceased to use the kernel.
TEST(AttentionKernel, OfWholeVectorsAndOneThread) {
  set_gemm_threads(1);
  EXPECT_EQ(attention_kernel(64), cpu::allowed_tile_kernel());
  EXPECT_EQ(attention_kernel(20), nullptr);
  set_gemm_threads(2);
  EXPECT_EQ(attention_kernel(64), nullptr);
  set_gemm_threads(1);
}

}  // namespace
}  // namespace cohort::ops
