// logits_of_run RUN < TOKEN_IDS: the logits after each prefix of the tokens, as the model of the run's newest checkpoint has
// them, one line a prefix. For the comparison with transformers.
#include <cstdint>
#include <iostream>
#include <vector>

#include "config/run_file.hpp"
#include "interchange/checkpoint_weights.hpp"
#include "interchange/hf_config.hpp"
#include "models/model.hpp"
#include "support/test_device.hpp"

namespace cohort {
namespace {

std::unique_ptr<Model> load(const CheckpointWeights& weights) {
  const ModelSection config = resolved_model(parse_run_file(weights.state().run_file, "run file").model, "run file");
  auto model = make_model(config, 1);
  std::vector<float> values;
  for (std::size_t i = 0; i < weights.tensors().size(); ++i) {
    const Parameter* parameter = model->parameters().find(weights.tensors()[i].name);
    COHORT_CHECK(parameter != nullptr, "the model has no {}", weights.tensors()[i].name);
    weights.read(i, values);
    parameter->value.copy_from(Tensor::wrap(values.data(), parameter->global_shape));
  }
  model->parameters().values_changed();
  return model;
}

void print_logits(Model& model, const std::vector<std::int32_t>& tokens) {
  Arena activations("activations", DeviceKind::cpu);
  const StepContext context{.exec = {DeviceKind::cpu}, .dtype = DType::f32, .activations = &activations};
  const Tensor logits = Tensor::zeros("logits", {1, model.classes()});
  Hooks none;
  for (std::size_t prefix = 1; prefix <= tokens.size(); ++prefix) {
    ModelInput input;
    input.samples = 1;
    input.inputs = std::span(tokens).first(prefix);
    model.last_logits(context, input, logits, none);
    for (const float logit : logits.span<float>()) fmt::print("{:.9g} ", logit);
    fmt::print("\n");
  }
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const cohort::test::TestDevice device(0);
  std::vector<std::int32_t> tokens;
  for (std::int32_t token = 0; std::cin >> token;) tokens.push_back(token);
  const cohort::CheckpointWeights weights(argv[1]);
  const auto model = cohort::load(weights);
  cohort::print_logits(*model, tokens);
  return 0;
}
