// Adapters: the model with them is the one with the weights W + s B A, in what it computes and in its gradients, and only they
// are trained.
#include <gtest/gtest.h>

#include <cmath>

#include "model_problem.hpp"

namespace cohort::test {
namespace {

using Matrix = std::vector<double>;

struct LoraCase {
  std::string name;
  ModelSection model;
};

std::vector<LoraCase> lora_cases() {
  std::vector<LoraCase> cases;
  for (const auto& [name, base] :
       {std::pair{"gpt2", gpt2_config()}, {"llama", llama_config()}, {"qwen3", qwen3_config(2, false)}}) {
    for (const auto& [what, targets] : {std::pair{"default", LoraSection{}.targets},
                                        {"all", std::string("*")},
                                        {"down", std::string("*.down.weight, *.key.weight")}}) {
      LoraCase one{std::string(name) + "_" + what, base};
      one.model.lora = {.rank = 3, .alpha = 4.5, .targets = targets};
      cases.push_back(one);
    }
  }
  return cases;
}

class Lora : public ::testing::TestWithParam<LoraCase> {
 protected:
  static Matrix values_of(const Tensor& tensor) {
    const Tensor host = tensor.to_host();
    return {host.f32(), host.f32() + host.elements()};
  }

  /// Without adapters, with the weights that the adapters make of W.
  std::unique_ptr<Model> merged(const Model& adapted) const {
    ModelSection base = GetParam().model;
    base.lora = {};
    auto model = make_model(base, 1, test_storage());
    const double scale = GetParam().model.lora.alpha / static_cast<double>(GetParam().model.lora.rank);
    for (const auto& parameter : model->parameters().all()) {
      Matrix weight = values_of(adapted.parameters().find(parameter->name)->value);
      const std::string layer = parameter->name.substr(0, parameter->name.rfind('.'));
      const Parameter* const a = adapted.parameters().find(layer + ".lora_a");
      if (a != nullptr && parameter->name.ends_with(".weight")) {
        const Matrix down = values_of(a->value), up = values_of(adapted.parameters().find(layer + ".lora_b")->value);
        const auto rank = static_cast<std::size_t>(a->global_shape[0]), inputs = static_cast<std::size_t>(a->global_shape[1]);
        for (std::size_t i = 0; i < weight.size(); ++i) {
          for (std::size_t r = 0; r < rank; ++r) weight[i] += scale * up[i / inputs * rank + r] * down[r * inputs + i % inputs];
        }
      }
      parameter->value.copy_from(ops::tensor_of(weight, parameter->global_shape));
    }
    model->parameters().values_changed();
    return model;
  }
};

TEST_P(Lora, BeginsAsTheModelThatItAdapts) {
  const auto model = make_bent_model(GetParam().model);
  for (const auto& parameter : model->parameters().all()) {
    if (parameter->name.ends_with(".lora_b")) parameter->value.zero();
  }
  const auto base = merged(*model);
  const TestBatch batch = make_batch(GetParam().model, 3, 6);
  const Tensor logits = run_last_logits(*model, batch.input()), wanted = run_last_logits(*base, batch.input());
  for (Count i = 0; i < logits.elements(); ++i) {
    if (test_device() == DeviceKind::cpu) {
      EXPECT_EQ(logits.f32()[i], wanted.f32()[i]) << i;  // to the bit
    } else {
      EXPECT_NEAR(logits.f32()[i], wanted.f32()[i], 1e-5) << i;  // where the GELU is fused in one and not in the other
    }
  }
}

TEST_P(Lora, IsTheMergedModel) {
  const auto model = make_bent_model(GetParam().model);
  const auto base = merged(*model);
  const TestBatch batch = make_batch(GetParam().model, 3, 6);
  EXPECT_NEAR(run_loss(*model, batch.input()), run_loss(*base, batch.input()), 2e-4);
  const Tensor logits = run_last_logits(*model, batch.input()), wanted = run_last_logits(*base, batch.input());
  for (Count i = 0; i < logits.elements(); ++i) EXPECT_NEAR(logits.f32()[i], wanted.f32()[i], 1e-4) << i;
}

// dL/dB = s dL/dW A^T and dL/dA = s B^T dL/dW, with the merged model's dL/dW, which other tests compare with the reference.
TEST_P(Lora, GradientsAreThoseOfTheMergedWeights) {
  const auto model = make_bent_model(GetParam().model);
  const auto base = merged(*model);
  const TestBatch batch = make_batch(GetParam().model, 3, 6);
  run_pass(*base, batch.input());
  run_pass(*model, batch.input());
  const double scale = GetParam().model.lora.alpha / static_cast<double>(GetParam().model.lora.rank);
  std::size_t adapters = 0;
  for (const Parameter* a : model->parameters().trained()) {
    if (!a->name.ends_with(".lora_a")) continue;
    ++adapters;
    const std::string layer = a->name.substr(0, a->name.rfind('.'));
    const Parameter* const b = model->parameters().find(layer + ".lora_b");
    const Matrix down = values_of(a->value), up = values_of(b->value);
    const Matrix dweight = values_of(base->parameters().find(layer + ".weight")->gradient);
    const Matrix da = values_of(a->gradient), db = values_of(b->gradient);
    const auto rank = static_cast<std::size_t>(a->global_shape[0]), inputs = static_cast<std::size_t>(a->global_shape[1]);
    Matrix wanted_a(da.size()), wanted_b(db.size());
    for (std::size_t i = 0; i < dweight.size(); ++i) {
      for (std::size_t r = 0; r < rank; ++r) {
        wanted_a[r * inputs + i % inputs] += scale * up[i / inputs * rank + r] * dweight[i];
        wanted_b[i / inputs * rank + r] += scale * down[r * inputs + i % inputs] * dweight[i];
      }
    }
    const double tolerance = 1e-4 * std::max({largest(wanted_a), largest(wanted_b), 1.0});
    for (std::size_t i = 0; i < da.size(); ++i) EXPECT_NEAR(da[i], wanted_a[i], tolerance) << a->name << " " << i;
    for (std::size_t i = 0; i < db.size(); ++i) EXPECT_NEAR(db[i], wanted_b[i], tolerance) << b->name << " " << i;
  }
  EXPECT_GT(adapters, 0u);
}

// Along the gradient itself, the loss of the merged model rises by its square.
TEST_P(Lora, TheLossOfTheMergedModelRisesAsTheGradientSays) {
  const auto model = make_bent_model(GetParam().model);
  const TestBatch batch = make_batch(GetParam().model, 3, 6);
  run_pass(*model, batch.input());
  double squares = 0.0;
  for (const Parameter* parameter : model->parameters().trained()) {
    for (const double g : values_of(parameter->gradient)) squares += g * g;
  }
  const double step = 2e-3 / std::sqrt(squares);
  const auto loss_at = [&](double distance) {
    std::vector<Matrix> before;
    for (const Parameter* parameter : model->parameters().trained()) {
      Matrix moved = values_of(parameter->value);
      before.push_back(moved);
      const Matrix gradient = values_of(parameter->gradient);
      for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += distance * gradient[i];
      parameter->value.copy_from(ops::tensor_of(moved, parameter->global_shape));
    }
    model->parameters().values_changed();
    const double loss = run_loss(*merged(*model), batch.input());
    for (std::size_t i = 0; i < before.size(); ++i)
      model->parameters().trained()[i]->value.copy_from(
          ops::tensor_of(before[i], model->parameters().trained()[i]->global_shape));
    return loss;
  };
  const double slope = (loss_at(step) - loss_at(-step)) / (2.0 * step);
  EXPECT_NEAR(slope, squares, 0.01 * squares);
}

TEST_P(Lora, OnlyAdaptersAreTrained) {
  const auto model = make_bent_model(GetParam().model);
  const ParameterRegistry& parameters = model->parameters();
  Count elements = 0;
  for (const auto& parameter : parameters.all()) {
    const bool adapter = parameter->name.ends_with(".lora_a") || parameter->name.ends_with(".lora_b");
    EXPECT_EQ(parameter->frozen, !adapter) << parameter->name;
    EXPECT_EQ(parameter->gradient.defined(), adapter) << parameter->name;
    elements += adapter ? parameter->elements() : 0;
  }
  EXPECT_EQ(parameters.flat_gradients().elements(), elements);
  EXPECT_EQ(parameters.trained_elements(), elements);
  EXPECT_LT(elements, parameters.elements());
}

INSTANTIATE_TEST_SUITE_P(Models, Lora, ::testing::ValuesIn(lora_cases()),
                         [](const ::testing::TestParamInfo<LoraCase>& one) { return one.param.name; });

TEST(LoraInit, IsUniformInTheInputsAndZero) {
  ModelSection config = wide_config("llama");
  config.lora = {.rank = 8, .alpha = 8, .targets = "*.query.weight"};
  const auto model = make_model(config, 3, test_storage());
  for (const Parameter* parameter : model->parameters().trained()) {
    const Tensor host = parameter->value.to_host();
    double most = 0.0, squares = 0.0;
    for (Count i = 0; i < host.elements(); ++i) {
      most = std::max(most, std::abs(static_cast<double>(host.f32()[i])));
      squares += static_cast<double>(host.f32()[i]) * host.f32()[i];
    }
    if (parameter->name.ends_with(".lora_b")) {
      EXPECT_EQ(most, 0.0) << parameter->name;
      continue;
    }
    const double bound = 1.0 / 8.0;  // 1 / sqrt(64 inputs)
    EXPECT_LE(most, bound) << parameter->name;
    EXPECT_GT(most, 0.95 * bound) << parameter->name;
    EXPECT_NEAR(squares / static_cast<double>(host.elements()), bound * bound / 3.0, 0.1 * bound * bound / 3.0);
  }
}

}  // namespace
}  // namespace cohort::test
