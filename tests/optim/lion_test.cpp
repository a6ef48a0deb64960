// Lion against its formula in double precision.
#include <gtest/gtest.h>

#include "models/model.hpp"
#include "ops/compare.hpp"
#include "optim/resident_optimizer.hpp"
#include "support/device_model.hpp"

namespace cohort::test {
namespace {

TEST(Lion, IsItsFormula) {
  ModelSection small;
  small.kind = "mlp";
  small.layers = 2;
  small.width = 8;
  const auto model = make_model(small, 3, test_storage(DType::bf16));
  const ParameterRegistry& parameters = model->parameters();
  OptimizerSection section;
  section.kind = "lion";
  section.weight_decay = 0.5;
  const ResidentOptimizer optimizer({whole_of(parameters)}, section);
  EXPECT_EQ(optimizer.runs().size(), 1u);
  EXPECT_EQ(optimizer.slots(0).size(), 1u);

  std::map<std::string, ops::Array> weights, means;
  for (const auto& parameter : parameters.all()) {
    weights[parameter->name] = ops::values_of(parameter->value);
    means[parameter->name].resize(weights[parameter->name].size(), 0.0);
  }
  constexpr double kRate = 0.02, kScale = 0.25;
  for (Count step = 0; step < 4; ++step) {
    const bool skip = step == 2;
    parameters.flat_gradients().copy_from(
        flat_tensor(parameters, ops::random_values(parameters.elements(), static_cast<std::uint32_t>(step))));
    const ops::OptimizerScalars decided{.gradient_scale = static_cast<float>(kScale), .skip = skip ? 1 : 0};
    optimizer.step(ops::test_exec(), kRate, ops::bytes_of<ops::OptimizerScalars>({decided}), step);
    for (const auto& parameter : parameters.all()) {
      const ops::Array gradients = ops::values_of(parameter->gradient);
      ops::Array &w = weights[parameter->name], &mean = means[parameter->name];
      for (std::size_t i = 0; i < w.size() && !skip; ++i) {
        const double g = kScale * gradients[i], direction = section.beta1 * mean[i] + (1.0 - section.beta1) * g;
        const double decay = parameter->decays ? section.weight_decay : 0.0;
        w[i] -= kRate * ((direction > 0.0 ? 1.0 : direction < 0.0 ? -1.0 : 0.0) + decay * w[i]);
        mean[i] = section.beta2 * mean[i] + (1.0 - section.beta2) * g;
      }
      // A few operations in fp32 a step; no direction of these is so near 0 that its sign is rounding.
      EXPECT_TRUE(ops::close(parameter->value, w, 20.0 * ops::kEps)) << parameter->name << " step " << step;
      EXPECT_TRUE(ops::close(parameter->optimizer_state.at("mean"), mean, 20.0 * ops::kEps)) << parameter->name;
      EXPECT_TRUE(ops::close(parameter->compute, w, 0x1p-8)) << parameter->name;
    }
  }
}

}  // namespace
}  // namespace cohort::test
