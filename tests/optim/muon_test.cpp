// Muon against double precision, and what Newton-Schulz is for: directions of equal length.
#include <gtest/gtest.h>

#include "models/model.hpp"
#include "ops/compare.hpp"
#include "optim/muon/newton_schulz.hpp"
#include "optim/muon/reference.hpp"
#include "optim/resident_optimizer.hpp"
#include "support/device_model.hpp"

namespace cohort::test {
namespace {

using muon::reference::Matrix;

Matrix matrix_of(const Tensor& tensor) {
  const auto values = ops::values_of(tensor);
  return {tensor.shape()[0], tensor.shape()[1], std::vector<double>(values.begin(), values.end())};
}

Matrix random_matrix(Count rows, Count columns, std::uint32_t stream) {
  const auto values = ops::random_values(rows * columns, stream);
  return {rows, columns, std::vector<double>(values.begin(), values.end())};
}

Tensor tensor_of(const Matrix& matrix) {
  const Tensor host = Tensor::zeros("test", {matrix.rows, matrix.columns});
  std::copy(matrix.elements.begin(), matrix.elements.end(), host.f32());
  return host.to(test_device(), "test");
}

Matrix by_kernels(const Matrix& matrix, Count steps) {
  const Tensor whole = tensor_of(matrix);
  const Tensor scratch =
      Tensor::zeros("test", {muon::scratch_bytes(matrix.rows, matrix.columns, test_device())}, DType::u8, test_device());
  muon::orthogonalize(ops::test_exec(), whole, scratch, steps);
  return matrix_of(whole);
}

double largest_difference(const Matrix& a, const Matrix& b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.elements.size(); ++i) largest = std::max(largest, std::abs(a.elements[i] - b.elements[i]));
  return largest;
}

// fp32: products of up to 64 terms, five steps, each of which multiplies errors by up to a = 3.4: a few hundred eps of elements
// of at most 1. bf16 on a GPU: 2^-8 for eps.
double tolerance() { return (test_device() == DeviceKind::gpu ? 0.1 : 1e-4); }

TEST(NewtonSchulz, IsThatOfDoublePrecision) {
  for (const auto& [rows, columns] : {std::pair<Count, Count>{8, 8}, {16, 64}, {64, 16}, {1, 8}, {24, 1}, {40, 33}}) {
    const Matrix matrix = random_matrix(rows, columns, static_cast<std::uint32_t>(rows * 100 + columns));
    for (const Count steps : {1, 5}) {
      EXPECT_LT(largest_difference(by_kernels(matrix, steps), muon::reference::orthogonalized(matrix, steps)), tolerance())
          << rows << " x " << columns << ", " << steps << " steps";
    }
  }
}

// Singular values come together near 1: so x^T X X^T x is near 1 for every unit x. The band is what the coefficients are made
// for (0.7 to 1.2, and some rounding), for matrices that are not nearly singular.
TEST(NewtonSchulz, BringsSingularValuesNearOne) {
  for (const auto& [rows, columns] : {std::pair<Count, Count>{16, 64}, {64, 16}, {24, 96}}) {
    Matrix x = by_kernels(random_matrix(rows, columns, 5), 5);
    if (rows > columns) x = muon::reference::transposed(x);
    const Matrix gram = muon::reference::product(x, muon::reference::transposed(x));
    double trace = 0.0;
    for (Count i = 0; i < gram.rows; ++i) trace += gram.at(i, i);
    EXPECT_NEAR(trace / static_cast<double>(gram.rows), 0.87, 0.3) << "mean of squares";
    for (std::uint32_t stream = 0; stream < 20; ++stream) {
      const Matrix unit = random_matrix(1, gram.rows, 50 + stream);
      double length = 0.0;
      for (const double element : unit.elements) length += element * element;
      const double quotient =
          muon::reference::product(muon::reference::product(unit, gram), muon::reference::transposed(unit)).at(0, 0) / length;
      EXPECT_GT(std::sqrt(quotient), 0.65) << rows << " x " << columns;
      EXPECT_LT(std::sqrt(quotient), 1.25) << rows << " x " << columns;
    }
  }
}

TEST(NewtonSchulz, DoesNotCareForTheLengthAndLeavesZeros) {
  const Matrix matrix = random_matrix(12, 20, 3);
  const Matrix long_one = muon::reference::sum(1e4, matrix, 0.0, matrix);
  EXPECT_LT(largest_difference(by_kernels(matrix, 5), by_kernels(long_one, 5)), tolerance());
  for (const double element : by_kernels(muon::reference::zeros(4, 6), 5).elements) EXPECT_EQ(element, 0.0);
}

ModelSection muon_model() {
  ModelSection model;
  model.kind = "gpt2";
  model.layers = 1;
  model.width = 8;
  model.heads = model.kv_heads = 2;
  model.ffn_width = 12;
  model.context = 4;
  model.vocabulary = 9;
  return model;
}

OptimizerSection muon_section() {
  OptimizerSection section;
  section.kind = "muon";
  section.weight_decay = 0.3;
  section.own["momentum"] = 0.9;
  return section;
}

void muon_step(const Optimizer& optimizer, Count number, bool skip = false) {
  const ops::OptimizerScalars decided{.gradient_scale = 0.25f, .skip = skip ? 1 : 0};
  optimizer.step(ops::test_exec(), 0.02, ops::bytes_of<ops::OptimizerScalars>({decided}).to(test_device(), "test"), number);
}

void random_gradients(const Model& model, std::uint32_t stream) {
  const ParameterRegistry& parameters = model.parameters();
  parameters.flat_gradients().copy_from(
      flat_tensor(parameters, ops::random_values(parameters.elements(), stream)).to(test_device(), "test"));
}

// The largest difference of a matrix from the reference after three steps, relative to the learning rate.
double difference_from_reference(const muon::reference::Settings& settings) {
  const auto model = make_model(muon_model(), 3, test_storage());
  const ResidentOptimizer optimizer({whole_of(model->parameters())}, muon_section());
  std::map<std::string, std::pair<Matrix, Matrix>> expected;
  for (const auto& parameter : model->parameters().all()) {
    if (parameter->role != ParameterRole::matrix) continue;
    expected[parameter->name] = {matrix_of(parameter->value), muon::reference::zeros(parameter->shape[0], parameter->shape[1])};
  }
  double largest = 0.0;
  for (Count number = 0; number < 3; ++number) {
    random_gradients(*model, static_cast<std::uint32_t>(20 + number));
    for (auto& [name, state] : expected)
      muon::reference::step(state.first, state.second, matrix_of(model->parameters().find(name)->gradient), settings);
    muon_step(optimizer, number);
  }
  for (const auto& [name, state] : expected) {
    const Parameter& parameter = *model->parameters().find(name);
    largest = std::max(largest, largest_difference(matrix_of(parameter.value), state.first) / settings.learning_rate);
    EXPECT_LT(largest_difference(matrix_of(parameter.optimizer_state.at("momentum")), state.second),
              settings.momentum == 0.9 ? 1e-5 : 10.0)
        << name;
  }
  EXPECT_EQ(expected.size(), 6u);
  return largest;
}

TEST(Muon, IsThatOfDoublePrecision) {
  const muon::reference::Settings honest{0.02, 0.9, 0.3, 0.25, 5};
  EXPECT_LT(difference_from_reference(honest), 3 * tolerance());
  // The comparison sees what it is for. Products that round to bf16 leave less room, and hide a decay of so little.
  const bool gpu = test_device() == DeviceKind::gpu;
  const double visible = (gpu ? 3 : 10) * tolerance();
  EXPECT_GT(difference_from_reference({0.02, 0.5, 0.3, 0.25, 5}), visible);
  EXPECT_GT(difference_from_reference({0.02, 0.9, 0.3, 0.25, 4}), visible);
  if (!gpu) {
    EXPECT_GT(difference_from_reference({0.02, 0.9, 0.0, 0.25, 5}), visible);
  }
}

TEST(Muon, UpdatesHaveTheSizeOfAdamW) {
  const auto model = make_model(muon_model(), 3, test_storage());
  OptimizerSection plain = muon_section();
  plain.weight_decay = 0.0;
  const ResidentOptimizer optimizer({whole_of(model->parameters())}, plain);
  std::map<std::string, Matrix> before;
  for (const auto& parameter : model->parameters().all()) {
    if (parameter->role == ParameterRole::matrix) before[parameter->name] = matrix_of(parameter->value);
  }
  random_gradients(*model, 20);
  muon_step(optimizer, 0);
  for (const auto& [name, old] : before) {
    const Matrix change = muon::reference::sum(1.0, matrix_of(model->parameters().find(name)->value), -1.0, old);
    double squares = 0.0;
    for (const double element : change.elements) squares += element * element;
    // 0.2 of the rate, times singular values between 0.7 and 1.2.
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(change.elements.size())) / 0.02, 0.2, 0.08) << name;
  }
}

TEST(Muon, ASkippedStepLeavesEverything) {
  for (const DType compute : {DType::f32, DType::bf16}) {
    const auto model = make_model(muon_model(), 3, test_storage(compute));
    const ResidentOptimizer optimizer({whole_of(model->parameters())}, muon_section());
    random_gradients(*model, 20);
    muon_step(optimizer, 0);
    const Tensor values = ops::copy_of(model->parameters().flat_values());
    const Tensor copies = ops::copy_of(model->parameters().flat_compute());
    const Parameter& one = *model->parameters().find("blocks.0.attention.query.weight");
    const Tensor momentum = ops::copy_of(one.optimizer_state.at("momentum"));
    random_gradients(*model, 21);
    one.gradient.copy_from(ops::filled(one.gradient.shape(), std::nanf("")));
    muon_step(optimizer, 1, /*skip=*/true);
    EXPECT_TRUE(ops::same_bits(model->parameters().flat_values(), values));
    EXPECT_TRUE(ops::same_bits(model->parameters().flat_compute(), copies));
    EXPECT_TRUE(ops::same_bits(one.optimizer_state.at("momentum"), momentum));
    muon_step(optimizer, 1);
    EXPECT_FALSE(ops::same_bits(one.optimizer_state.at("momentum"), momentum));
  }
}

}  // namespace
}  // namespace cohort::test
