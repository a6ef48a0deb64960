// The portable matrix product against a product in double precision.
#include "ops/product.hpp"

#include <gtest/gtest.h>

#include "ops/compare.hpp"

namespace cohort::ops {
namespace {

struct Case {
  Count m, n, k;
  bool transpose_a, transpose_b;
  float beta;
  bool addend, bias;
  DType from, to;
  bool in_packs = false;  // rows of A and B begin at multiples of 16 bytes
};

// Half a step of a 16-bit format, relative.
double rounding(DType type) { return type == DType::bf16 ? 0x1.0p-8 : type == DType::f16 ? 0x1.0p-11 : 0.0; }

Array random_of_type(DType type, Count elements, std::uint32_t stream) {
  return values_of(tensor_of_type(type, random_values(elements, stream), {elements}));
}

struct Outcome {
  Tensor c;
  Array expected, tolerance;
};

// Rows of A and B are longer than their matrices by 3 and 5 elements, or up to the next but one multiple of 8; those of C are
// longer by 2, which keep what they held.
Outcome multiply(const Case& t) {
  const auto padded = [](DType type, const Array& matrix, Count rows, Count columns, Count padding) {
    Array values(rows * (columns + padding), 7.0);
    for (Count i = 0; i < rows; ++i) {
      for (Count j = 0; j < columns; ++j) values[i * (columns + padding) + j] = matrix[i * columns + j];
    }
    return tensor_of_type(type, values, {rows, columns + padding});
  };
  const Array a = random_of_type(t.from, t.m * t.k, 1), b = random_of_type(t.from, t.k * t.n, 2),
              before = random_of_type(t.to, t.m * t.n, 3), addend = random_of_type(t.to, t.m * t.n, 4),
              bias = random_of_type(t.to, t.n, 5);
  const Count a_rows = t.transpose_a ? t.k : t.m, a_columns = t.transpose_a ? t.m : t.k;
  const Count b_rows = t.transpose_b ? t.n : t.k, b_columns = t.transpose_b ? t.k : t.n;
  const auto padding = [&](Count columns, Count odd) { return t.in_packs ? 16 - columns % 8 : odd; };
  const Tensor ta = padded(t.from, a, a_rows, a_columns, padding(a_columns, 3)),
               tb = padded(t.from, b, b_rows, b_columns, padding(b_columns, 5));
  const Tensor c = t.beta == 0.0f ? filled({t.m, t.n + 2}, kGarbage) : padded(DType::f32, before, t.m, t.n, 2);
  Tensor tc = c;
  if (t.to != DType::f32) {
    tc = Tensor::zeros("test", c.shape(), t.to, test_device());
    convert(tc, c);
  }
  const StridedMatrix va = strided(ta, a_columns), vb = strided(tb, b_columns);
  portable_product(test_exec(), strided(tc, t.n), t.transpose_a ? va.transposed() : va, t.transpose_b ? vb.transposed() : vb,
                   t.beta, t.addend ? tensor_of_type(t.to, addend, {t.m, t.n}) : Tensor{},
                   t.bias ? tensor_of_type(t.to, bias, {t.n}) : Tensor{});
  Outcome outcome{tc, {}, {}};
  for (Count i = 0; i < t.m; ++i) {
    for (Count j = 0; j < t.n; ++j) {
      double sum = 0.0, size = 0.0;
      const auto add = [&](double term) {
        sum += term;
        size += std::abs(term);
      };
      for (Count k = 0; k < t.k; ++k)
        add(a[t.transpose_a ? k * t.m + i : i * t.k + k] * b[t.transpose_b ? j * t.k + k : k * t.n + j]);
      if (t.beta != 0.0f) add(before[i * t.n + j]);
      if (t.addend) add(addend[i * t.n + j]);
      if (t.bias) add(bias[j]);
      outcome.expected.push_back(sum);
      outcome.tolerance.push_back(sum_error(t.k + 3) * size + rounding(t.to) * std::abs(sum));
    }
  }
  return outcome;
}

Array without_padding(const Tensor& c, Count n) {
  const Array values = values_of(c);
  const Count stride = c.shape().columns();
  Array matrix;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (static_cast<Count>(i) % stride < n) matrix.push_back(values[i]);
  }
  return matrix;
}

void check(const Case& t) {
  SCOPED_TRACE(fmt::format("{} x {} x {}, {}{}, beta {}, addend {}, bias {}, {} to {}", t.m, t.n, t.k, t.transpose_a ? "T" : "N",
                           t.transpose_b ? "T" : "N", t.beta, t.addend, t.bias, name_of(t.from), name_of(t.to)));
  const Outcome outcome = multiply(t);
  EXPECT_TRUE(close(without_padding(outcome.c, t.n), outcome.expected, outcome.tolerance));
  const Array all = values_of(outcome.c);
  for (Count i = 0; i < t.m; ++i) {
    const double padding = all[i * (t.n + 2) + t.n];
    EXPECT_TRUE(t.beta == 0.0f ? std::isnan(padding) : padding == 7.0) << "row " << i << ": " << padding;
  }
}

TEST(Product, MatchesTheReference) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const Count m : {1, 6, 49, 130}) {
        for (const Count n : {1, 16, 65, 131}) {
          for (const Count k : {0, 1, 17, 257}) check({m, n, k, ta, tb, 0.0f, false, false, DType::f32, DType::f32});
        }
      }
      check({50, 67, 33, ta, tb, 1.0f, false, false, DType::f32, DType::f32});
      for (const DType from : {DType::f32, DType::bf16}) {
        check({49, 131, 257, ta, tb, 0.0f, false, false, from, from, true});
        check({136, 128, 64, ta, tb, 1.0f, true, true, from, from, true});
        // So long a k that teams of a GPU share it, whose last share is shorter.
        for (const bool in_packs : {false, true}) check({33, 40, 5000, ta, tb, 1.0f, true, true, from, DType::f32, in_packs});
      }
    }
  }
}

TEST(Product, AddsInFp32AndRoundsOnce) {
  for (const auto& [from, to] :
       {std::pair(DType::f32, DType::f32), std::pair(DType::bf16, DType::bf16), std::pair(DType::f16, DType::f16),
        std::pair(DType::bf16, DType::f32), std::pair(DType::f16, DType::f32)}) {
    for (const bool addend : {false, true}) {
      for (const bool bias : {false, true}) {
        for (const float beta : {0.0f, 1.0f}) check({49, 65, 70, false, true, beta, addend, bias, from, to});
      }
    }
  }
}

TEST(Product, TheComparisonRejectsWrongProducts) {
  const Case t{49, 65, 70, false, true, 1.0f, true, true, DType::f32, DType::f32};
  const Outcome outcome = multiply(t);
  const Array found = without_padding(outcome.c, t.n);
  for (const auto& [beta, addend, bias] :
       {std::tuple(0.0f, true, true), std::tuple(1.0f, false, true), std::tuple(1.0f, true, false)}) {
    Case other = t;
    other.beta = beta;
    other.addend = addend;
    other.bias = bias;
    EXPECT_FALSE(close(found, multiply(other).expected, outcome.tolerance));
  }
}

TEST(Product, RejectsSizesThatDoNotFit) {
  const Tensor a = filled({3, 4}, 1.0f), b = filled({5, 6}, 1.0f), c = filled({3, 6}, 0.0f);
  EXPECT_THROW(portable_product(test_exec(), strided(c), strided(a), strided(b)), Error);
  EXPECT_THROW(portable_product(test_exec(), strided(c), strided(a), strided(b).transposed()), Error);
  EXPECT_THROW(strided(a, 5), Error);
}

TEST(Product, SameBitsEachTime) {
  EXPECT_TRUE(repeats([] {
    return std::vector<Tensor>{multiply({49, 65, 257, true, true, 1.0f, true, true, DType::f32, DType::f32}).c};
  }));
}

}  // namespace
}  // namespace cohort::ops
