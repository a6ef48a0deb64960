// AdamW over a whole model, and clipping by the global norm.
#include <gtest/gtest.h>

#include <limits>

#include "models/model.hpp"
#include "ops/compare.hpp"
#include "ops/reference/adamw.hpp"
#include "optim/clip.hpp"
#include "optim/resident_optimizer.hpp"
#include "support/device_model.hpp"

namespace cohort::test {
namespace {

using ops::Array;

ModelSection small_model(const std::string& kind) {
  ModelSection config;
  config.kind = kind;
  config.layers = 2;
  config.width = 8;
  config.heads = config.kv_heads = 2;
  config.ffn_width = 12;
  config.context = 4;
  config.vocabulary = 9;
  return config;
}

std::unique_ptr<Model> random_model(const std::string& kind) {
  auto model = make_model(small_model(kind), 3, test_storage());
  const ParameterRegistry& parameters = model->parameters();
  parameters.flat_values().copy_from(flat_tensor(parameters, ops::random_values(parameters.elements(), 1)));
  return model;
}

void set_gradients(const Model& model, std::uint32_t stream, double scale = 1.0) {
  const ParameterRegistry& parameters = model.parameters();
  parameters.flat_gradients().copy_from(flat_tensor(parameters, ops::random_values(parameters.elements(), stream, scale)));
}

// One step that scales the gradient by this, or leaves it out.
void run_step(const Optimizer& optimizer, double rate, double gradient_scale, Count step, bool skip = false) {
  const ops::OptimizerScalars decided{.gradient_scale = static_cast<float>(gradient_scale), .skip = skip ? 1 : 0};
  optimizer.step(ops::test_exec(), rate, ops::bytes_of<ops::OptimizerScalars>({decided}), step);
}

constexpr const char* kKinds[] = {"gpt2", "llama", "mlp"};

TEST(AdamW, MomentsStartAtZero) {
  for (const char* kind : kKinds) {
    const auto model = random_model(kind);
    const ResidentOptimizer optimizer({whole_of(model->parameters())}, OptimizerSection{});
    for (const auto& parameter : model->parameters().all()) {
      for (const char* name : {"m", "v"}) {
        const Tensor& moment = parameter->optimizer_state.at(name);
        ASSERT_EQ(moment.elements(), parameter->elements());
        for (const double value : ops::values_of(moment)) ASSERT_EQ(value, 0.0);
      }
    }
  }
}

// Without a gradient the adaptive step is zero and only the decay acts: w -= rate * decay * w, on matrices alone.
TEST(AdamW, MatricesDecayAndNormsAndBiasesDoNot) {
  for (const char* kind : kKinds) {
    const auto model = random_model(kind);
    OptimizerSection config;
    config.weight_decay = 0.25;
    const ResidentOptimizer optimizer({whole_of(model->parameters())}, config);
    std::vector<Array> before;
    for (const auto& parameter : model->parameters().all()) before.push_back(ops::values_of(parameter->value));
    run_step(optimizer, 0.5, 1.0, 0);
    for (std::size_t p = 0; p < before.size(); ++p) {
      const Parameter& parameter = *model->parameters().all()[p];
      const bool matrix = parameter.global_shape.dims() == 2;
      const Array after = ops::values_of(parameter.value);
      for (std::size_t i = 0; i < after.size(); ++i) {
        ASSERT_NEAR(after[i], matrix ? 0.875 * before[p][i] : before[p][i], matrix ? 1e-6 : 0.0) << parameter.name;
      }
    }
  }
}

// Each step rounds the weight (below 5) a few times by kEps / 2, and the step of at most some five times the rate a dozen times.
TEST(AdamW, StepsAreThoseOfTheReference) {
  constexpr int kSteps = 5;
  constexpr double kScale = 0.375;  // exact in fp32
  for (const char* kind : kKinds) {
    const auto model = random_model(kind);
    OptimizerSection config;
    config.weight_decay = 0.3;
    const ResidentOptimizer optimizer({whole_of(model->parameters())}, config);
    std::vector<ops::reference::AdamWState> expected;
    for (const auto& parameter : model->parameters().all()) {
      const Array zeros(static_cast<std::size_t>(parameter->elements()), 0.0);
      expected.push_back({ops::values_of(parameter->value), zeros, zeros});
    }
    for (int step = 0; step < kSteps; ++step) {
      const double rate = 0.01 * (step + 1);  // changes from step to step, as under a schedule
      set_gradients(*model, static_cast<std::uint32_t>(10 + step));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const Parameter& parameter = *model->parameters().all()[i];
        const double decay = parameter.global_shape.dims() == 2 ? config.weight_decay : 0.0;
        ops::reference::adamw(expected[i], ops::values_of(parameter.gradient),
                              {rate, config.beta1, config.beta2, config.epsilon, decay, kScale, step + 1});
      }
      run_step(optimizer, rate, kScale, step);
    }
    const double tolerance = kSteps * (5.0 * 2.0 * ops::kEps + 5.0 * 0.05 * 12.0 * ops::kEps);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Parameter& parameter = *model->parameters().all()[i];
      EXPECT_TRUE(ops::close(parameter.value, expected[i].weight, tolerance)) << parameter.name;
      EXPECT_TRUE(ops::close(parameter.optimizer_state.at("m"), expected[i].m, 20.0 * ops::kEps)) << parameter.name;
      EXPECT_TRUE(ops::close(parameter.optimizer_state.at("v"), expected[i].v, 20.0 * ops::kEps)) << parameter.name;
    }
    EXPECT_TRUE(padding_is_zero(model->parameters(), model->parameters().flat_values())) << kind;
  }
}

// The step number matters (bias correction): the mistake of counting from 1, or of never counting, moves the weights elsewhere.
TEST(AdamW, StepNumberShows) {
  Tensor values[2];
  for (const int first : {0, 1}) {
    const auto model = random_model("gpt2");
    const ResidentOptimizer optimizer({whole_of(model->parameters())}, OptimizerSection{});
    set_gradients(*model, 10);
    run_step(optimizer, 0.01, 1.0, first);
    values[first] = ops::copy_of(model->parameters().flat_values());
  }
  EXPECT_FALSE(ops::close(values[0], ops::values_of(values[1]), 1e-3));
}

TEST(AdamW, LeavesTheGradientsAlone) {
  const auto model = random_model("gpt2");
  const ResidentOptimizer optimizer({whole_of(model->parameters())}, OptimizerSection{});
  set_gradients(*model, 10);
  const Tensor before = ops::copy_of(model->parameters().flat_gradients());
  run_step(optimizer, 0.01, 0.5, 0);
  EXPECT_TRUE(ops::same_bits(model->parameters().flat_gradients(), before));
}

TEST(AdamW, ASkippedStepLeavesWeightsAndMoments) {
  const auto model = random_model("gpt2");
  const ResidentOptimizer optimizer({whole_of(model->parameters())}, OptimizerSection{});
  set_gradients(*model, 10);
  run_step(optimizer, 0.01, 1.0, 0);
  const Tensor before = ops::copy_of(model->parameters().flat_values());
  const Parameter& parameter = *model->parameters().all()[0];
  const Tensor m = ops::copy_of(parameter.optimizer_state.at("m")), v = ops::copy_of(parameter.optimizer_state.at("v"));
  run_step(optimizer, 0.01, 1.0, 1, true);
  EXPECT_TRUE(ops::same_bits(model->parameters().flat_values(), before));
  EXPECT_TRUE(ops::same_bits(parameter.optimizer_state.at("m"), m));
  EXPECT_TRUE(ops::same_bits(parameter.optimizer_state.at("v"), v));
}

// The optimizer moves the fp32 weights as ever, and what layers read follows.
TEST(AdamW, KeepsThe16BitCopyUpToDate) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const auto model = make_model(small_model("gpt2"), 3, test_storage(dtype)),
               fp32 = make_model(small_model("gpt2"), 3, test_storage());
    for (Model* each : {model.get(), fp32.get()}) {
      const ResidentOptimizer optimizer({whole_of(each->parameters())}, OptimizerSection{});
      set_gradients(*each, 10);
      run_step(optimizer, 0.01, 1.0, 0);
    }
    const ParameterRegistry& parameters = model->parameters();
    EXPECT_TRUE(ops::same_bits(parameters.flat_values(), fp32->parameters().flat_values()));
    const Tensor rounded = ops::tensor_of_type(dtype, ops::values_of(parameters.flat_values()), parameters.flat_values().shape());
    EXPECT_TRUE(ops::same_bits(parameters.flat_compute(), rounded)) << name_of(dtype);
  }
}

// What the gradients of a model decide, if the loss is `loss`.
StepScalars::Values decide(const Model& model, double clip_norm, double loss_scale = 1.0, double loss = 3.0) {
  const StepScalars scalars(test_device());
  scalars.begin();
  scalars.loss().copy_from(ops::number_tensor(loss));
  add_squares(ops::test_exec(), std::vector{whole_of(model.parameters())}, scalars);
  decide_update(ops::test_exec(), scalars, loss_scale, clip_norm);
  scalars.fetch();
  if (test_device() == DeviceKind::gpu) gpu::synchronize();
  return scalars.values();
}

void set_all_gradients(const Model& model, float value) {
  const ParameterRegistry& parameters = model.parameters();
  const Array values(static_cast<std::size_t>(parameters.elements()), static_cast<double>(value));
  parameters.flat_gradients().copy_from(flat_tensor(parameters, values));
}

// Every gradient 3: the norm is 3 sqrt(N), with N the number of parameters, in which a tied weight is one.
TEST(Clip, NormCountsEachElementOnce) {
  for (const char* kind : kKinds) {
    for (const bool tied_head : {true, false}) {
      ModelSection config = small_model(kind);
      config.tied_head = tied_head;
      const auto model = make_model(config, 3, test_storage());
      set_all_gradients(*model, 3.0f);
      const double expected = 3.0 * std::sqrt(static_cast<double>(count_parameters(config)));
      EXPECT_NEAR(decide(*model, 1.0).norm, expected, 1e-12 * expected) << kind << ", tied head " << tied_head;
    }
  }
}

TEST(Clip, NormIsThatOfTheReference) {
  const auto model = random_model("gpt2");
  set_gradients(*model, 10);
  const double expected = std::sqrt(ops::reference::sum_of_squares(ops::values_of(model->parameters().flat_gradients())));
  EXPECT_NEAR(decide(*model, 1.0).norm, expected, 1e-12 * expected);
}

// Squares beyond fp32's range: 1e20 squared is 1e40.
TEST(Clip, NormOfHugeAndTinyGradientsIsFinite) {
  const auto model = random_model("gpt2");
  for (const float size : {1e20f, 1e-30f}) {
    set_all_gradients(*model, size);
    const double expected = static_cast<double>(size) * std::sqrt(static_cast<double>(model->parameters().elements()));
    EXPECT_NEAR(decide(*model, 1.0).norm / expected, 1.0, 1e-12);
    EXPECT_EQ(decide(*model, 1.0).decisions.skip, 0);
  }
}

// Gradients that carry the factor of a scaled loss: the norm is that of the gradients without it, and the optimizer's factor
// takes it out.
TEST(Clip, TheLossScaleIsTakenOut) {
  const auto model = random_model("gpt2");
  set_gradients(*model, 10);
  const StepScalars::Values plain = decide(*model, 0.0), clipped = decide(*model, 0.7);
  set_gradients(*model, 10, 1024.0);
  const StepScalars::Values scaled = decide(*model, 0.0, 1024.0), scaled_clipped = decide(*model, 0.7, 1024.0);
  EXPECT_EQ(scaled.norm, plain.norm);
  EXPECT_EQ(plain.decisions.gradient_scale, 1.0f);
  EXPECT_EQ(scaled.decisions.gradient_scale, 1.0f / 1024.0f);
  EXPECT_EQ(scaled_clipped.decisions.gradient_scale, clipped.decisions.gradient_scale / 1024.0f);
}

TEST(Clip, ScaledGradientsHaveTheClipNorm) {
  const auto model = random_model("llama");
  set_gradients(*model, 10);
  const float factor = decide(*model, 0.7).decisions.gradient_scale;
  EXPECT_LT(factor, 1.0f);
  set_gradients(*model, 10, static_cast<double>(factor));
  EXPECT_NEAR(decide(*model, 0.7).norm, 0.7, 1e-7);
}

TEST(Clip, NoStepFromWhatIsNotFinite) {
  const auto model = random_model("gpt2");
  set_gradients(*model, 10);
  EXPECT_EQ(decide(*model, 1.0).decisions.skip, 0);
  EXPECT_NE(decide(*model, 1.0, 1.0, std::numeric_limits<double>::infinity()).decisions.skip, 0);
  EXPECT_NE(decide(*model, 0.0, 1.0, std::numeric_limits<double>::quiet_NaN()).decisions.skip, 0);
  const Tensor& last = model->parameters().all().back()->gradient;
  Array gradients = ops::values_of(last);
  gradients.back() = ops::kGarbage;
  last.copy_from(ops::tensor_of(gradients, last.shape()));
  EXPECT_NE(decide(*model, 1.0).decisions.skip, 0);
}

}  // namespace
}  // namespace cohort::test
