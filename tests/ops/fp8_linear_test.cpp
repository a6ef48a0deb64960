// Products in 8 bits: the codes bit for bit against the reference, and each product against that of the numbers which the codes
// stand for, in double precision. On a CPU the ops are the references themselves (fp8_on_host.hpp): there the test is tested.
#include "ops/fp8_linear.hpp"

#include <gtest/gtest.h>

#include "ops/fp8_on_host.hpp"

namespace cohort::ops {
namespace {

class Fp8Linear : public ::testing::Test {
 protected:
  Fp8Linear() { on_host::use(); }
  const Exec exec_ = {.device = test_device(), .fp8 = true};
};

Tensor codes(Count rows, Count columns) { return Tensor::zeros("test", {rows, columns}, DType::u8, test_device()); }

Fp8Matrix matrix(Fp8 format, Count rows, Count columns, bool with_rows = true, bool with_transposed = true) {
  Fp8Matrix to{.format = format, .scale = filled({2}, kGarbage)};
  if (with_rows) to.rows = codes(rows, columns);
  if (with_transposed) to.transposed = codes(columns, rows);
  return to;
}

Fp8Matrix rounded(const Exec& exec, Fp8 format, const Tensor& x) {
  const Fp8Matrix to = matrix(format, x.shape().rows(), x.shape().columns());
  fp8_quantize(exec, to, x);
  return to;
}

Tensor bf16_of(Input values, const Shape& shape) { return tensor_of_type(DType::bf16, values, shape); }

// Sizes that range over 40 powers of two: normal, subnormal and vanishing codes.
Array wide_values(Count elements, std::uint32_t stream) {
  Array values = random_values(elements, stream);
  const Array powers = random_values(elements, stream + 100, 5.0);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::ldexp(values[i], static_cast<int>(powers[i]));
  return values;
}

// The sign of a NaN is the hardware's own.
std::vector<int> comparable(const Tensor& tensor) {
  std::vector<int> all;
  const Tensor host = tensor.to_host();
  for (const std::uint8_t code : host.span<std::uint8_t>()) all.push_back((code & 0x7f) == 0x7f ? 0x7f : code);
  return all;
}

void expect_codes(const Fp8Matrix& found, const Tensor& x) {
  const Count rows = x.shape().rows(), columns = x.shape().columns();
  const Array values = values_of(x);
  float largest = 0.0f;
  for (const double value : values) largest = std::max(largest, static_cast<float>(std::abs(value)));
  const float multiplier = fp8_multiplier(found.format, largest);
  std::vector<int> by_rows, by_columns(values.size());
  for (const double value : values) by_rows.push_back(reference::fp8_code(found.format, value * static_cast<double>(multiplier)));
  for (Count i = 0; i < rows * columns; ++i)
    by_columns[static_cast<std::size_t>(i % columns * rows + i / columns)] = by_rows[static_cast<std::size_t>(i)];
  EXPECT_EQ(values_of(found.scale)[0], 1.0 / static_cast<double>(multiplier));
  EXPECT_EQ(values_of(found.scale)[1], static_cast<double>(largest));
  if (found.rows.defined()) {
    EXPECT_EQ(comparable(found.rows), by_rows);
  }
  if (found.transposed.defined()) {
    EXPECT_EQ(comparable(found.transposed), by_columns);
  }
}

// Tiles of the kernel are 128 x 128: less than one, one, several, and with rests on each side.
TEST_F(Fp8Linear, QuantizesBitForBit) {
  for (const auto& [rows, columns] : {std::pair<Count, Count>{16, 16},
                                      {16, 128},
                                      {128, 16},
                                      {128, 128},
                                      {144, 272},
                                      {48, 400},
                                      {272, 112},
                                      {512, 384},
                                      {1040, 2064}}) {
    const Tensor x = bf16_of(wide_values(rows * columns, 1), {rows, columns});
    for (const Fp8 format : {Fp8::e4m3, Fp8::e5m2}) {
      for (const auto& [with_rows, with_transposed] : {std::pair{true, false}, {false, true}, {true, true}}) {
        SCOPED_TRACE(fmt::format("[{}, {}] {} {} {}", rows, columns, name_of(format), with_rows, with_transposed));
        const Fp8Matrix to = matrix(format, rows, columns, with_rows, with_transposed);
        fp8_quantize(exec_, to, x);
        expect_codes(to, x);
      }
    }
  }
  for (const Count rows : {1, 7, 33}) {  // without a transposed copy: any number of rows
    const Tensor x = bf16_of(wide_values(rows * 48, 2), {rows, 48});
    const Fp8Matrix to = matrix(Fp8::e4m3, rows, 48, true, false);
    fp8_quantize(exec_, to, x);
    expect_codes(to, x);
  }
}

// Wherever the largest element is, and of either sign.
TEST_F(Fp8Linear, FindsTheLargestElementAnywhere) {
  for (const Count place : {0, 1, 7, 8, 2047, 2048, 16383, 70000, 160 * 528 - 1}) {
    Array values = random_values(160 * 528, 3);
    values[static_cast<std::size_t>(place)] = place % 2 == 0 ? -1000.0 : 1000.0;
    EXPECT_EQ(values_of(rounded(exec_, Fp8::e4m3, bf16_of(values, {160, 528})).scale)[1], 1000.0) << place;
  }
}

TEST_F(Fp8Linear, ZerosAndTheSmallestNumbers) {
  const Fp8Matrix zeros = rounded(exec_, Fp8::e4m3, bf16_of(Array(32 * 16, 0.0), {32, 16}));
  EXPECT_EQ(values_of(zeros.scale)[0], 1.0);
  EXPECT_EQ(comparable(zeros.rows), std::vector<int>(32 * 16, 0));
  EXPECT_EQ(comparable(zeros.transposed), std::vector<int>(32 * 16, 0));
  const Tensor y = filled({32, 32}, kGarbage), y16 = bf16_of(values_of(y), {32, 32});
  fp8_linear_forward(exec_, y16, zeros, zeros);
  EXPECT_EQ(values_of(y16), Array(32 * 32, 0.0));
  const Array tiny(32 * 16, 0x1.8p-126);  // the smallest normal bf16: kernels may take smaller ones for zeros
  const Tensor x = bf16_of(tiny, {32, 16});
  expect_codes(rounded(exec_, Fp8::e5m2, x), x);
}

// Never a number that looks right.
TEST_F(Fp8Linear, WhatIsNotFiniteComesOutAsNaN) {
  const Array good = random_values(32 * 32, 4);
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity()}) {
    for (const std::size_t place : {std::size_t{0}, good.size() / 2, good.size() - 1}) {
      Array values = good;
      values[place] = bad;
      const Fp8Matrix poisoned = rounded(exec_, Fp8::e4m3, bf16_of(values, {32, 32}));
      const Fp8Matrix sound = rounded(exec_, Fp8::e4m3, bf16_of(good, {32, 32}));
      EXPECT_TRUE(std::isnan(values_of(poisoned.scale)[0])) << bad;
      EXPECT_EQ(comparable(poisoned.rows), std::vector<int>(32 * 32, 0x7f)) << bad;
      for (const bool first : {true, false}) {
        const Tensor y = bf16_of(Array(32 * 32, 0.0), {32, 32}), dweight = filled({32, 32}, 0.0f);
        fp8_linear_forward(exec_, y, first ? poisoned : sound, first ? sound : poisoned);
        fp8_linear_backward_weight(exec_, dweight, first ? poisoned : sound, first ? sound : poisoned);
        for (const double value : values_of(y)) ASSERT_TRUE(std::isnan(value)) << bad;
        for (const double value : values_of(dweight)) ASSERT_TRUE(std::isnan(value)) << bad;
      }
    }
  }
}

// x [R, K] through a weight [N, K].
struct Fp8Problem {
  Fp8Problem(const Exec& exec, Count rows, Count inputs, Count outputs) : r(rows), k(inputs), n(outputs) {
    x = rounded(exec, Fp8::e4m3, bf16_of(random_values(r * k, 11, 3.0), {r, k}));
    weight = rounded(exec, Fp8::e4m3, bf16_of(random_values(n * k, 12, 0.02), {n, k}));
    dy = rounded(exec, Fp8::e5m2, bf16_of(random_values(r * n, 13, 1e-4), {r, n}));
  }

  Tensor output(Count rows, Count columns) const { return bf16_of(Array(rows * columns, 7.0), {rows, columns}); }

  Count r, k, n;
  Fp8Matrix x, weight, dy;
};

void for_each_fp8_problem(const Exec& exec, const std::function<void(const Fp8Problem&)>& test) {
  for (const auto& [r, k, n] : {std::tuple<Count, Count, Count>{16, 16, 16}, {64, 48, 112}, {80, 512, 16}, {272, 144, 400}}) {
    SCOPED_TRACE(fmt::format("[{}, {}] by [{}, {}]", r, k, n, k));
    test(Fp8Problem(exec, r, k, n));
  }
}

// Storing a result in bf16 errs by up to 2^-9 of it, and 2^-8 is allowed. Tensor cores of Hopper add products of 8 bits, 32 of
// them at a time, into sums of some 14 bits (DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 3.3.2): with fast sums
// each addition errs by up to 2^-13 of the terms so far; else, added to fp32 every 128 terms, four of them do.
Array sizes_of_product(const Fp8Matrix& a, const Tensor& a_copy, const Fp8Matrix& b, const Tensor& b_copy) {
  Array x = on_host::numbers_of(a, a_copy), y = on_host::numbers_of(b, b_copy);
  for (double& value : x) value = std::abs(value);
  for (double& value : y) value = std::abs(value);
  return reference::matmul(x, false, y, true, a_copy.shape()[0], b_copy.shape()[0], a_copy.shape()[1]);
}

Array tolerance_of(Input expected, Array sizes, double share) {
  for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] = share * sizes[i] + 0x1p-8 * std::abs(expected[i]);
  return sizes;
}
// cuBLASLt may not fuse the bias: then what stands before it is rounded to bf16, too.
Array tolerance_of(Input expected, Input before, const Array& sizes, double share) {
  Array allowed = tolerance_of(expected, sizes, share);
  for (std::size_t i = 0; i < allowed.size(); ++i) allowed[i] += 0x1p-8 * std::abs(before[i]);
  return allowed;
}
double fast_share(Count k) { return (1.0 + static_cast<double>(k) / 32.0) * 0x1p-13; }
constexpr double kExactShare = 0x1p-11;

TEST_F(Fp8Linear, Forward) {
  for_each_fp8_problem(exec_, [&](const Fp8Problem& p) {
    const Array bias = random_values(p.n, 14), residual = random_values(p.r * p.n, 15);
    const Tensor tbias = bf16_of(bias, {p.n}), tresidual = bf16_of(residual, {p.r, p.n});
    const Array product = on_host::product(p.x, p.x.rows, p.weight, p.weight.rows);
    const Array sizes = sizes_of_product(p.x, p.x.rows, p.weight, p.weight.rows);
    const auto tolerance = [&](Input expected) { return tolerance_of(expected, sizes, fast_share(p.k)); };
    const auto of_biased = [&](Input expected, Input before) { return tolerance_of(expected, before, sizes, fast_share(p.k)); };
    const Tensor y = p.output(p.r, p.n), with_bias = p.output(p.r, p.n), with_residual = p.output(p.r, p.n);
    fp8_linear_forward(exec_, y, p.x, p.weight);
    EXPECT_TRUE(close(y, product, tolerance(product)));
    const Array biased = on_host::with_bias(product, tbias);
    fp8_linear_forward(exec_, with_bias, p.x, p.weight, tbias);
    EXPECT_TRUE(close(with_bias, biased, of_biased(biased, product)));
    // One of the two sums on the way may be rounded: on an H200 it is that of product and bias where y is the residual.
    const Array added = sum(values_of(tresidual), biased), unbiased = sum(values_of(tresidual), product);
    Array before = unbiased;
    for (std::size_t i = 0; i < before.size(); ++i) before[i] = std::max(std::abs(before[i]), std::abs(biased[i]));
    fp8_linear_residual_forward(exec_, with_residual, tresidual, p.x, p.weight, tbias);
    EXPECT_TRUE(close(with_residual, added, of_biased(added, before)));
    fp8_linear_residual_forward(exec_, tresidual, tresidual, p.x, p.weight, tbias);
    EXPECT_TRUE(close(tresidual, added, of_biased(added, before))) << "in place";
    EXPECT_FALSE(close(with_bias, product, tolerance(product))) << "planted: the bias forgotten";
    Array half = product;
    for (double& value : half) value *= 0.5;
    EXPECT_FALSE(close(y, half, tolerance(half))) << "planted: a scale off by one power of two";
  });
}

// Choices of an evaluation have any number of tokens.
TEST_F(Fp8Linear, ForwardOfAnyNumberOfRows) {
  constexpr Count k = 48, n = 112;
  const Fp8Matrix weight = rounded(exec_, Fp8::e4m3, bf16_of(random_values(n * k, 12, 0.02), {n, k}));
  for (const Count r : {1, 37}) {
    const Fp8Matrix x = matrix(Fp8::e4m3, r, k, true, false);
    fp8_quantize(exec_, x, bf16_of(random_values(r * k, 11, 3.0), {r, k}));
    const Tensor y = bf16_of(Array(static_cast<std::size_t>(r * n), 7.0), {r, n});
    fp8_linear_forward(exec_, y, x, weight);
    const Array product = on_host::product(x, x.rows, weight, weight.rows);
    const Array sizes = sizes_of_product(x, x.rows, weight, weight.rows);
    EXPECT_TRUE(close(y, product, tolerance_of(product, sizes, fast_share(k)))) << r << " rows";
  }
}

TEST_F(Fp8Linear, GeluForwardAndBackward) {
  for_each_fp8_problem(exec_, [&](const Fp8Problem& p) {
    const Tensor bias = bf16_of(random_values(p.n, 14), {p.n});
    const Tensor before = p.output(p.r, p.n), after = p.output(p.r, p.n);
    fp8_linear_gelu_forward(exec_, after, before, p.x, p.weight, bias);
    const Array z = on_host::with_bias(on_host::product(p.x, p.x.rows, p.weight, p.weight.rows), bias);
    Array sizes = sizes_of_product(p.x, p.x.rows, p.weight, p.weight.rows), gelu;
    for (const double value : z) gelu.push_back(reference::gelu(value));
    EXPECT_TRUE(close(before, z, tolerance_of(z, sizes, fast_share(p.k))));
    // Its slope is below 1.13, and it may be that of a z that was rounded; its tanh is good to some 2^-10 on GPUs.
    Array allowed = tolerance_of(z, sizes, fast_share(p.k));
    for (std::size_t i = 0; i < allowed.size(); ++i) allowed[i] = 1.13 * allowed[i] + 0x1p-8 * std::abs(z[i]);
    EXPECT_TRUE(close(after, gelu, allowed));

    // The layer behind the GELU has the weight's transpose: dy of K columns, `before` of N.
    const Fp8Matrix behind = rounded(exec_, Fp8::e4m3, bf16_of(random_values(p.k * p.n, 16, 0.1), {p.k, p.n}));
    const Fp8Matrix dy = rounded(exec_, Fp8::e5m2, bf16_of(random_values(p.r * p.k, 17, 1e-3), {p.r, p.k}));
    const Tensor dbefore = p.output(p.r, p.n), dbias = filled({p.n}, 0.25f);
    fp8_linear_gelu_backward(exec_, dbefore, dbias, dy, behind, before);
    Array expected = on_host::product(dy, dy.rows, behind, behind.transposed);
    sizes = sizes_of_product(dy, dy.rows, behind, behind.transposed);
    const Array kept = values_of(before);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] *= reference::gelu_slope(kept[i]);
    Array slack = tolerance_of(expected, sizes, 1.13 * kExactShare + 0x1p-8);  // of the slope, and of a product rounded before it
    EXPECT_TRUE(close(dbefore, expected, slack));
    Array sums(static_cast<std::size_t>(p.n), 0.25), sums_slack(static_cast<std::size_t>(p.n), 1e-6);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      sums[i % sums.size()] += expected[i];
      sums_slack[i % sums.size()] += slack[i];
    }
    EXPECT_TRUE(close(dbias, sums, sums_slack));
  });
}

TEST_F(Fp8Linear, Backward) {
  for_each_fp8_problem(exec_, [&](const Fp8Problem& p) {
    const Tensor dx = p.output(p.r, p.k);
    fp8_linear_backward_input(exec_, dx, p.dy, p.weight);
    const Array input = on_host::product(p.dy, p.dy.rows, p.weight, p.weight.transposed);
    EXPECT_TRUE(
        close(dx, input, tolerance_of(input, sizes_of_product(p.dy, p.dy.rows, p.weight, p.weight.transposed), kExactShare)));

    const Array before = random_values(p.n * p.k, 18, 1e-3);
    const Tensor dweight = tensor_of(before, {p.n, p.k});
    fp8_linear_backward_weight(exec_, dweight, p.dy, p.x);
    const Array product = on_host::product(p.dy, p.dy.transposed, p.x, p.x.transposed);
    const Array sizes = sizes_of_product(p.dy, p.dy.transposed, p.x, p.x.transposed);
    Array slack = sizes;
    for (std::size_t i = 0; i < slack.size(); ++i) slack[i] = kExactShare * sizes[i] + kEps * (std::abs(before[i]) + sizes[i]);
    EXPECT_TRUE(close(dweight, sum(before, product), slack));
    EXPECT_FALSE(close(dweight, product, slack)) << "planted: overwritten, not added to";
  });
}

// Two runs of one layout are equal bit for bit.
TEST_F(Fp8Linear, SameInputSameBits) {
  const Fp8Problem p(exec_, 272, 144, 400), q(exec_, 272, 144, 400);
  const Tensor y = p.output(p.r, p.n), again = p.output(p.r, p.n);
  const Tensor dweight = filled({p.n, p.k}, 1.0f), dweight_again = filled({p.n, p.k}, 1.0f);
  fp8_linear_forward(exec_, y, p.x, p.weight);
  fp8_linear_forward(exec_, again, q.x, q.weight);
  fp8_linear_backward_weight(exec_, dweight, p.dy, p.x);
  fp8_linear_backward_weight(exec_, dweight_again, q.dy, q.x);
  EXPECT_TRUE(same_bits(y, again));
  EXPECT_TRUE(same_bits(dweight, dweight_again));
}

TEST_F(Fp8Linear, RefusesWhatTheProductsCannotTake) {
  const Tensor x = bf16_of(Array(24 * 16, 1.0), {24, 16}), odd = bf16_of(Array(16 * 24, 1.0), {16, 24});
  EXPECT_THROW(fp8_quantize(exec_, matrix(Fp8::e4m3, 24, 16), x), Error) << "24 rows, with a transposed copy";
  EXPECT_NO_THROW(fp8_quantize(exec_, matrix(Fp8::e4m3, 24, 16, true, false), x));
  EXPECT_THROW(fp8_quantize(exec_, matrix(Fp8::e4m3, 16, 24, true, false), odd), Error) << "24 columns";
  EXPECT_THROW(fp8_quantize(exec_, matrix(Fp8::e4m3, 16, 16), tensor_of(Array(256, 1.0), {16, 16})), Error) << "of fp32";
}

}  // namespace
}  // namespace cohort::ops
