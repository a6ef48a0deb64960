// Histograms and sums of squares against counts by hand, in all types and at the edges of bins.
#include "ops/value_figures.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/compare.hpp"

namespace cohort::ops {
namespace {

std::vector<double> figures_of(const Tensor& x, float factor = 1.0f) {
  const Tensor figures = Tensor::zeros("test", {kValueFigures}, DType::f64, test_device());
  add_value_figures(test_exec(), figures, x, factor);
  const Tensor host = figures.to_host();
  return {host.span<double>().begin(), host.span<double>().end()};
}

// By comparing with the edges of bins, without the bits of numbers.
std::vector<double> counted_by_hand(const Array& values) {
  std::vector<double> figures(static_cast<std::size_t>(kValueFigures), 0.0);
  for (const double value : values) {
    figures[kSquares] += value * value;
    const double size = std::abs(value);
    if (!std::isfinite(value)) {
      ++figures[kNotFinite];
    } else if (size < magnitude_of_bin(0)) {
      ++figures[kZeros];
    } else {
      int bin = 0;
      while (bin + 1 < kMagnitudes && size >= magnitude_of_bin(bin + 1)) ++bin;
      ++figures[static_cast<std::size_t>((value > 0 ? kPositive : 0) + bin)];
    }
  }
  return figures;
}

void expect_same(const std::vector<double>& figures, const std::vector<double>& wanted) {
  for (int i = 0; i < kSquares; ++i)
    EXPECT_EQ(figures[static_cast<std::size_t>(i)], wanted[static_cast<std::size_t>(i)]) << "bin " << i;
  if (std::isfinite(wanted[kSquares])) {
    EXPECT_NEAR(figures[kSquares], wanted[kSquares], 1e-6 * wanted[kSquares]);
  } else {
    EXPECT_FALSE(std::isfinite(figures[kSquares]));
  }
}

TEST(ValueFigures, CountEachValueOnceInEveryType) {
  for (const Count elements : {1, 255, 4096, 4097, 70'001}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      SCOPED_TRACE(fmt::format("{} of {}", elements, name_of(dtype)));
      const Tensor x = tensor_of_type(dtype, random_values(elements, 1, 0.02), {elements});
      expect_same(figures_of(x), counted_by_hand(values_of(x)));
    }
  }
}

TEST(ValueFigures, KnowTheEdgesAndWhatIsNoNumber) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Array values{0.0,      -0.0,      1.0,       1.5,        std::nextafter(1.5f, 0.0f),
                     -2.0,     -1.0e-20,  1e-40,     0x1p-48,    -0x1p16,
                     3.0e38,   0x1.8p-48, kInfinity, -kInfinity, NAN,
                     0x1.8p-5, -0.75,     0x1p-149};
  const Tensor x = tensor_of(values, {static_cast<Count>(values.size())});
  const std::vector<double> figures = figures_of(x);
  expect_same(figures, counted_by_hand(values_of(x)));
  EXPECT_EQ(figures[kNotFinite], 3);
  EXPECT_EQ(figures[kZeros], 5);
}

TEST(ValueFigures, AddUpOverPartsAndTakeAFactor) {
  const Array values = random_values(10'000, 2);
  const Tensor x = tensor_of(values, {10'000});
  const Tensor sum = Tensor::zeros("test", {kValueFigures}, DType::f64, test_device());
  for (const auto& [begin, end] : {std::pair{0, 1}, {1, 5000}, {5000, 10'000}})
    add_value_figures(test_exec(), sum, x.slice(begin, end));
  const Tensor host = sum.to_host();
  expect_same({host.span<double>().begin(), host.span<double>().end()}, figures_of(x));
  // A power of two moves every value by whole octaves.
  const std::vector<double> whole = figures_of(x), quarter = figures_of(x, 0.25f);
  for (std::size_t bin = 4; bin < kMagnitudes; ++bin) EXPECT_EQ(quarter[bin - 4], whole[bin]) << bin;
  EXPECT_NEAR(quarter[kSquares], whole[kSquares] / 16, 1e-9 * whole[kSquares]);
}

TEST(ValueFigures, RepeatToTheBit) {
  const Tensor x = tensor_of(random_values(100'000, 3), {100'000});
  EXPECT_EQ(figures_of(x), figures_of(x));
}

}  // namespace
}  // namespace cohort::ops
