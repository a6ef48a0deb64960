// Our own C = residual + A op(B) + bias against the triple loop, at sizes around those of its tiles and blocks: with the
// processor's tile kernel, and on every processor with a plain one, whose bits are the same.
#include "ops/cpu/linear_product.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "ops/linear.hpp"
#include "ops/padded.hpp"
#include "ops/plain_tile_kernel.hpp"
#include "ops/reference/matmul.hpp"
#include "support/expect_error.hpp"

namespace cohort::ops {
namespace {

constexpr Count kBetween = 5;  // elements between rows
constexpr Around kAroundC{kBetween, cpu::kTileRows, kPadding};

enum class Plus { nothing, residual, bias, both, c_and_bias };  // c_and_bias: the residual is C

bool has_bias(Plus plus) { return plus == Plus::bias || plus == Plus::both || plus == Plus::c_and_bias; }
bool has_residual(Plus plus) { return plus == Plus::residual || plus == Plus::both || plus == Plus::c_and_bias; }

struct Problem {
  Problem(Count rows, Count columns, Count k, bool transposed)
      : m(rows),
        n(columns),
        terms(k),
        transpose_b(transposed ? Transpose::yes : Transpose::no),
        values_a(random_values(m * k, 1)),
        values_b(random_values(k * n, 2)),
        values_residual(random_values(m * n, 3)),
        values_bias(random_values(n, 4)),
        a(values_a, m, k, kBetween),
        b(values_b, transposed ? n : k, transposed ? k : n, kBetween),
        residual(values_residual, m, n, kBetween),
        bias(tensor_of(values_bias, {n})) {}
  Padded product(cpu::TileKernel kernel, Plus plus) const {
    const Padded c(plus == Plus::c_and_bias ? values_residual : Array(m * n, kGarbage), m, n, kAroundC);
    const MatrixView addend = plus == Plus::c_and_bias ? c.view : has_residual(plus) ? residual.view : MatrixView{};
    cpu::linear_product(kernel, c.view, a.view, b.view, transpose_b, addend, has_bias(plus) ? bias.f32() : nullptr);
    return c;
  }
  // With `values` of the sizes of all numbers it gives the sizes of all terms.
  Array expected(Plus plus, const std::function<double(double)>& value) const {
    const auto of = [&](Array values) {
      for (double& v : values) v = value(v);
      return values;
    };
    Array c = reference::matmul(of(values_a), false, of(values_b), transpose_b == Transpose::yes, m, n, terms);
    for (Count i = 0; i < m * n; ++i) {
      if (has_residual(plus)) c[i] += value(values_residual[i]);
      if (has_bias(plus)) c[i] += value(values_bias[i % n]);
    }
    return c;
  }

  Count m, n, terms;
  Transpose transpose_b;
  Array values_a, values_b, values_residual, values_bias;
  Padded a, b, residual;
  Tensor bias;
};

class LinearProduct : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (kernel() == nullptr) GTEST_SKIP() << "this processor has no kernel for it";
  }
  void TearDown() override { set_gemm_threads(1); }
  static cpu::TileKernel kernel() { return GetParam() ? cpu::tile_kernel() : plain_kernel; }

  static void check_product(Count m, Count n, Count k, Plus plus) {
    for (const bool transposed : {false, true}) {
      SCOPED_TRACE(fmt::format("m {} n {} k {}, transposed {}, plus {}", m, n, k, transposed, static_cast<int>(plus)));
      const Problem p(m, n, k, transposed);
      const Padded product = p.product(kernel(), plus);
      Array tolerance = p.expected(plus, [](double v) { return std::abs(v); });
      for (double& value : tolerance) value *= sum_error(k + 2);
      EXPECT_TRUE(close(product.values(), p.expected(plus, [](double v) { return v; }), tolerance));
      EXPECT_TRUE(product.padding_untouched());
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Kernel, LinearProduct, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "OfTheProcessor" : "Plain"; });

TEST_P(LinearProduct, SizesAroundTiles) {
  for (const Count m : {1, 7, 8, 9, 17}) {
    for (const Count n : {1, 15, 16, 17, 47, 48, 49, 97}) {
      for (const Count k : {1, 3, 4, 5, 15, 16, 17, 33}) check_product(m, n, k, Plus::both);
    }
  }
}

// Of 384 terms; of columns a block has from 144 to 768, as the processor's cache is large.
TEST_P(LinearProduct, SizesAroundBlocks) {
  for (const Plus plus : {Plus::nothing, Plus::residual, Plus::bias, Plus::both, Plus::c_and_bias}) {
    check_product(9, 801, 5, plus);
    check_product(17, 33, 385, plus);
    check_product(5, 769, 770, plus);
  }
}

TEST_P(LinearProduct, SameBitsWithAnyNumberOfThreads) {
  for (const auto& [m, n] : {std::pair<Count, Count>{61, 801}, {301, 97}, {3, 40}}) {
    for (const bool transposed : {false, true}) {
      const Problem p(m, n, 401, transposed);
      const Array alone = p.product(kernel(), Plus::both).values();
      for (const int threads : {2, 3, 5}) {
        set_gemm_threads(threads);
        const Padded shared = p.product(kernel(), Plus::both);
        EXPECT_EQ(shared.values(), alone) << m << " x " << n << ", " << threads << " threads";
        EXPECT_TRUE(shared.padding_untouched());
      }
      set_gemm_threads(1);
    }
  }
}

TEST_P(LinearProduct, BitsOfARowDoNotDependOnTheOthers) {
  Problem p(37, 71, 401, true);
  const Array all = p.product(kernel(), Plus::both).values();
  for (Padded* matrix : {&p.a, &p.residual}) {
    matrix->view.data += 5 * matrix->view.stride;
    matrix->view.rows = 20;
  }
  p.m = 20;
  EXPECT_EQ(p.product(kernel(), Plus::both).values(), Array(all.begin() + 5 * 71, all.begin() + 25 * 71));
}

TEST_P(LinearProduct, BitsAreThoseOfThePlainKernel) {
  for (const bool transposed : {false, true}) {
    const Problem p(37, 71, 401, transposed);
    EXPECT_EQ(p.product(kernel(), Plus::both).values(), p.product(plain_kernel, Plus::both).values());
  }
}

// Without it nobody would see that the layers had ceased to use the kernel. sgemm's sums have another order.
TEST(LinearLayersByTheKernel, HaveItsBits) {
  if (cpu::tile_kernel() == nullptr) GTEST_SKIP() << "this processor has no kernel for it";
  for (const char* limit : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    if (std::getenv(limit) != nullptr) GTEST_SKIP() << limit << " is set";
  }
  set_gemm_threads(1);  // more would want more columns each
  constexpr Count kRows = 300, kOutputs = 285, kInputs = 400;
  const Problem p(kRows, kOutputs, kInputs, true);
  const Tensor x = tensor_of(p.values_a, {kRows, kInputs}), weight = tensor_of(p.values_b, {kOutputs, kInputs});
  const Tensor residual = tensor_of(p.values_residual, {kRows, kOutputs}), y = filled({kRows, kOutputs}, kGarbage);
  linear_forward(Exec{}, y, x, weight, p.bias);
  EXPECT_EQ(values_of(y), p.product(cpu::tile_kernel(), Plus::bias).values());
  linear_residual_forward(Exec{}, y, residual, x, weight, p.bias);
  EXPECT_EQ(values_of(y), p.product(cpu::tile_kernel(), Plus::both).values());
  linear_residual_forward(Exec{}, residual, residual, x, weight);
  EXPECT_EQ(values_of(residual), p.product(cpu::tile_kernel(), Plus::residual).values());
}

// The kernel would read beyond one that is too short.
TEST(LinearLayersByTheKernel, RefuseAResidualOrABiasOfAnotherSize) {
  constexpr Count kRows = 300, kOutputs = 285, kInputs = 400;
  const auto zeros = [](const Shape& shape) { return Tensor::zeros("test", shape); };
  const Tensor x = zeros({kRows, kInputs}), weight = zeros({kOutputs, kInputs}), y = zeros({kRows, kOutputs});
  const Tensor residual = zeros({kRows, kOutputs}), bias = zeros({kOutputs});
  EXPECT_NO_THROW(linear_residual_forward(Exec{}, y, residual, x, weight, bias));
  EXPECT_ERROR(linear_residual_forward(Exec{}, y, zeros({kRows - 1, kOutputs}), x, weight, bias), ExitCode::internal,
               "a residual of [299, 285] for a product of [300, 285]");
  EXPECT_ERROR(linear_residual_forward(Exec{}, y, zeros({kRows, kOutputs + 1}), x, weight, {}), ExitCode::internal,
               "a residual of [300, 286]");
  for (const Count length : {kOutputs - 1, kOutputs + 1}) {
    const std::string wrong = fmt::format("a bias [{}] for weight [285, 400]", length);
    EXPECT_ERROR(linear_residual_forward(Exec{}, y, residual, x, weight, zeros({length})), ExitCode::internal, wrong.c_str());
    EXPECT_ERROR(linear_forward(Exec{}, y, x, weight, zeros({length})), ExitCode::internal, wrong.c_str());
  }
}

TEST(PaysAsLinearProduct, WhereItWasMeasuredToBeFaster) {
  const auto pays = [](Count m, Count n, Count k, Transpose transpose_b, int threads) {
    return cpu::pays_as_linear_product({nullptr, m, n, n}, k, transpose_b, threads);
  };
  EXPECT_TRUE(pays(2048, 384, 1536, Transpose::yes, 1));
  EXPECT_FALSE(pays(2048, 384, 1536, Transpose::no, 1));
  EXPECT_TRUE(pays(2048, 1536, 384, Transpose::no, 1));
  EXPECT_FALSE(pays(2048, 128, 384, Transpose::yes, 1));  // a ninth of three panels would be zeros
  EXPECT_FALSE(pays(255, 1536, 384, Transpose::yes, 1));
  EXPECT_TRUE(pays(300, 1536, 384, Transpose::yes, 8));   // 4 panels for each thread
  EXPECT_FALSE(pays(300, 1536, 384, Transpose::yes, 9));  // and too few rows
  EXPECT_TRUE(pays(2304, 1536, 384, Transpose::yes, 9));
}

}  // namespace
}  // namespace cohort::ops
