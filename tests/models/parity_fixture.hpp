// The fixtures of tools/make_parity_fixtures.py: a model of Hugging Face's transformers with its weights, a batch, and what
// PyTorch computed with them in double precision.
#pragma once

#include <string>
#include <vector>

#include "hdf5/hdf5.hpp"
#include "model_problem.hpp"

namespace cohort::test {

struct ParityFixture {
  ModelSection config;
  TestBatch batch;
  Count tokens = 0;   // of each sample
  Weights weights;    // exact in fp32, bf16 and fp16
  Array logits;       // [samples, tokens, vocabulary]
  double loss = 0.0;  // mean over the counted targets
  Count counted = 0;
  Weights gradients;  // of the mean loss
};

inline std::vector<std::string> parity_fixture_names() {
  return {"gpt2",          "gpt2_untied_odd_sizes",       "llama_all_kv_heads",
          "llama_grouped", "llama_one_kv_head_odd_sizes", "llama_head_size_64"};
}

inline Array read_fp32(const hdf5::Group& group, const std::string& name) {
  const hdf5::Dataset dataset = group.open_dataset(name);
  std::vector<float> values(static_cast<std::size_t>(dataset.elements()));
  dataset.read(std::span<float>(values));
  return {values.begin(), values.end()};
}

inline std::vector<std::int32_t> read_int32(const hdf5::Group& group, const std::string& name) {
  const hdf5::Dataset dataset = group.open_dataset(name);
  std::vector<std::int32_t> values(static_cast<std::size_t>(dataset.elements()));
  dataset.read(std::span<std::int32_t>(values));
  return values;
}

inline ParityFixture read_parity_fixture(const std::string& name) {
  const hdf5::File file =
      hdf5::File::open(std::string(COHORT_SOURCE_DIR) + "/tests/models/fixtures/" + name + ".h5", ExitCode::data);
  ParityFixture fixture;
  ModelSection& config = fixture.config;
  config.kind = file.string_attribute("kind");
  config.layers = file.int_attribute("layers");
  config.width = file.int_attribute("width");
  config.heads = file.int_attribute("heads");
  config.kv_heads = file.int_attribute("kv_heads");
  config.ffn_width = file.int_attribute("ffn_width");
  config.context = file.int_attribute("context");
  config.vocabulary = file.int_attribute("vocabulary");
  config.tied_head = file.int_attribute("tied_head") != 0;
  config.rope_theta = file.double_attribute("rope_theta");
  config.norm_epsilon = file.double_attribute("norm_epsilon");

  const std::vector<Count> shape = file.open_dataset("inputs").shape();
  fixture.tokens = shape.at(1);
  fixture.batch.samples = shape.at(0);
  fixture.batch.inputs = read_int32(file, "inputs");
  fixture.batch.targets = read_int32(file, "targets");
  for (Count sample = 0; sample < fixture.batch.samples; ++sample) fixture.batch.slots.push_back(sample);

  fixture.logits = read_fp32(file, "logits");
  fixture.loss = file.double_attribute("loss");
  fixture.counted = file.int_attribute("counted");
  const hdf5::Group weights = file.open_group("weights");
  for (const std::string& parameter : weights.children()) {
    fixture.weights[parameter] = read_fp32(weights, parameter);
    fixture.gradients[parameter] = read_fp32(file.open_group("gradients"), parameter);
  }
  return fixture;
}

/// The model of the fixture's config with the fixture's weights. Names and sizes must be the model's own, all of them.
inline std::unique_ptr<Model> make_parity_model(const ParityFixture& fixture, DType compute = DType::f32) {
  auto model = make_model(fixture.config, 1, test_storage(compute));
  const ParameterRegistry& parameters = model->parameters();
  COHORT_CHECK(parameters.all().size() == fixture.weights.size(), "{} weights for {} parameters", fixture.weights.size(),
               parameters.all().size());
  for (const auto& [name, values] : fixture.weights) {
    const Parameter* parameter = parameters.find(name);
    COHORT_CHECK(parameter != nullptr, "the model has no parameter {}", name);
    parameter->value.copy_from(ops::tensor_of(values, parameter->global_shape));
  }
  parameters.values_changed();
  return model;
}

/// The first `tokens` tokens of each sample.
inline TestBatch prefix_of(const ParityFixture& fixture, Count tokens) {
  TestBatch prefix{fixture.batch.samples, {}, {}, {}, fixture.batch.slots};
  for (Count sample = 0; sample < prefix.samples; ++sample) {
    const Count begin = sample * fixture.tokens;
    for (Count t = begin; t < begin + tokens; ++t) {
      prefix.inputs.push_back(fixture.batch.inputs[static_cast<std::size_t>(t)]);
      prefix.targets.push_back(fixture.batch.targets[static_cast<std::size_t>(t)]);
    }
  }
  return prefix;
}

}  // namespace cohort::test
