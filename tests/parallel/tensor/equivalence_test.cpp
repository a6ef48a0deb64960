// A model in tensor-parallel parts gives the losses, gradients and weights of the whole model on one rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "comm/counting_communicator.hpp"
#include "parallel/tensor/training.hpp"

namespace cohort::test {
namespace {

struct Case {
  std::string name;
  ModelSection model;
  Form form;

  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const std::string& name, const ModelSection& model) {
    for (const Form& form : kForms) all.push_back({name + form.name(), model, form});
  };
  add("gpt2", gpt2_section(0.0));
  add("gpt2_untied", gpt2_section(0.0, false));
  add("gpt2_dropout", gpt2_section(0.2));
  for (const char* choice : {"selective", "full"}) {
    ModelSection checkpointing = gpt2_section(0.2);
    checkpointing.activation_checkpointing = choice;
    add(fmt::format("gpt2_{}_checkpointing", choice), checkpointing);
  }
  for (const Count kv_heads : {1, 2, 3, 4, 6, 12}) add(fmt::format("llama_{}_kv_heads", kv_heads), llama_section(kv_heads));
  add("llama_tied", llama_section(12, true));
  return all;
}

// Of key/value heads a part has several, one, or one that others have too; nothing else divides.
bool divides(const ModelSection& model, Count parts) { return model.kv_heads % parts == 0 || parts % model.kv_heads == 0; }

class TensorParallelism : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!divides(GetParam().model, ranks_.size())) GTEST_SKIP() << "the key/value heads do not divide";
  }

  static std::vector<double> loss_and_logits(const ModelInput& host_input, TensorParallel& parallel) {
    const ModelSection& section = GetParam().model;
    const auto model = make_model(section, 5, test_storage(), parallel);
    Arena arena("test", test_device());
    DeviceInputs inputs;
    const ModelInput input = inputs.put(host_input);
    const Tensor loss = Tensor::zeros("test.loss", {1}, DType::f64, test_device());
    const Tensor logits = Tensor::zeros("test.logits", {input.samples, section.vocabulary});
    const StepContext context{.exec = {.device = test_device()}, .activations = &arena, .loss_sum = loss};
    Hooks hooks;
    model->loss(context, input, hooks);
    model->last_logits(context, input, logits, hooks);
    std::vector<double> values{*loss.to_host().data<double>()};
    values.insert(values.end(), logits.f32(), logits.f32() + logits.elements());
    return values;
  }

  Ranks ranks_;
  TensorParallelGroup parallel_{ranks_.tensors(), GetParam().form.sequence, GetParam().form.overlap};
};

TEST_P(TensorParallelism, LossesGradientsAndWeightsAreThoseOfOneRank) {
  const Training training = train(GetParam().model, parallel_, ranks_.mesh());
  const Distance found = distance(training, train_alone(GetParam().model));
  EXPECT_TRUE(found.within(kTolerance)) << found.str();
  EXPECT_TRUE(training.copies_agree);
}

// Three times, since races hide.
TEST_P(TensorParallelism, RepeatedRunsHaveTheSameBits) {
  const Training first = train(GetParam().model, parallel_, ranks_.mesh());
  for (int run = 0; run < 2; ++run) EXPECT_TRUE(train(GetParam().model, parallel_, ranks_.mesh()) == first);
}

// bf16 has 8 bits: each rounding is off by up to 2^-9 of the number, and parts round each sum once more than one rank does.
TEST_P(TensorParallelism, In16BitsItIsNearOneRank) {
  ModelSection section = GetParam().model;
  section.width = 96;  // on a GPU, 16-bit attention takes heads of 8 features or more
  section.init_std = 0.1;
  const Training training = train(section, parallel_, ranks_.mesh(), DType::bf16);
  const Distance found = distance(training, train_alone(section, DType::bf16));
  EXPECT_TRUE(found.within_on_the_whole(2e-2)) << found.str();
  EXPECT_TRUE(training.copies_agree);
}

// Evaluation and generation, of samples of any length: 7 tokens are rows that no number of parts divides.
TEST_P(TensorParallelism, LossAndLogitsAreThoseOfOneRank) {
  const ModelSection& section = GetParam().model;
  const Batch batch(section, 0, 3);
  for (const bool prompt : {true, false}) {
    ModelInput input = batch.input();
    if (prompt) input = {1, input.inputs.first(7), input.targets.first(7), {}, input.slots.first(1)};
    const std::vector<double> whole = loss_and_logits(input, TensorParallel::none()), parts = loss_and_logits(input, parallel_);
    for (std::size_t i = 0; i < whole.size(); ++i)
      ASSERT_NEAR(parts[i], whole[i], kTolerance * std::max(1.0, std::abs(whole[i])));
  }
}

INSTANTIATE_TEST_SUITE_P(All, TensorParallelism, ::testing::ValuesIn(cases()), [](const auto& test) { return test.param.name; });

// What a part holds: its share of the split tensors, and every element of the model is counted once.
TEST(Parts, HoldTheirShareAndCountEveryElementOnce) {
  for (const Case& one : cases()) {
    const Count whole = count_parameters(one.model);
    for (const int parts : {1, 2, 3, 4}) {
      if (!divides(one.model, parts)) continue;
      Count counted = 0;
      for (int part = 0; part < parts; ++part) {
        TensorParallel parallel(parts, part, one.form.sequence);
        const auto model = declare_model(one.model, test_storage(), parallel);
        for (const auto& parameter : model->parameters().all()) {
          if (parameter->shard.counts) counted += parameter->elements();
          if (parameter->name.ends_with("query.weight") || parameter->name.ends_with("down.weight")) {
            EXPECT_EQ(parameter->elements() * parts, parameter->global_shape.elements()) << parameter->name;
          }
        }
      }
      EXPECT_EQ(counted, whole) << one.name << " in " << parts << " parts";
    }
  }
}

// A part that is only counted, with no other part there, takes the memory of one that computes with the others.
TEST(Parts, ActivationsAreWhatAPassReallyHolds) {
  const Ranks ranks;
  for (ModelSection section : {gpt2_section(0.1), llama_section(1)}) {
    section.width *= 4;  // large enough to show above the alignment
    section.ffn_width *= 4;
    section.context *= 4;
    for (const Form& form : kForms) {
      for (const char* checkpointing : {"none", "selective", "full"}) {
        for (const Count vocabulary : {301, 3001}) {
          section.activation_checkpointing = checkpointing;
          section.vocabulary = vocabulary;
          TensorParallelGroup parallel(ranks.tensors(), form.sequence, form.overlap);
          const auto model = make_model(section, 1, test_storage(), parallel);
          const Batch batch(section, 0, 4);
          const auto alone = make_counting_communicator("tp", ranks.tensors().rank(), ranks.tensors().size());
          TensorParallelGroup part(*alone, form.sequence, form.overlap);
          const auto make = [&] { return make_model(section, 1, test_storage(), part); };
          const Bytes counted = counted_activations(make, batch.input());
          Arena arena("test", test_device());
          arena.reserve(2 * counted);
          DeviceInputs inputs;
          const ModelInput input = inputs.put(batch.input());
          const Tensor loss = Tensor::zeros("test.loss", {1}, DType::f64, test_device());
          const StepContext context{.exec = {.device = test_device()}, .activations = &arena, .loss_sum = loss, .training = true};
          Hooks hooks;
          model->forward(context, input, 1.0f, hooks);
          model->backward(context, input, hooks);
          EXPECT_EQ(arena.peak_bytes(), counted)
              << section.kind << form.name() << ", checkpointing " << checkpointing << ", vocabulary " << vocabulary;
        }
      }
    }
  }
}

}  // namespace
}  // namespace cohort::test
