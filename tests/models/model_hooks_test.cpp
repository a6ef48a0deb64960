// The hooks: when they are called, and that what a strategy needs to know it can learn from them.
#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "model_cases.hpp"

namespace cohort::test {
namespace {

std::vector<ModelCase> hook_cases() {
  std::vector<ModelCase> cases = main_cases();
  cases.push_back({"gpt2_untied", gpt2_config(false), 4, 6});
  cases.push_back({"llama_tied", llama_config(2, true), 4, 6});
  for (const char* choice : {"selective", "full"}) {
    for (ModelCase model_case : {cases[0], cases[1]}) {
      model_case.name += fmt::format("_{}_checkpointing", choice);
      model_case.config.activation_checkpointing = choice;
      cases.push_back(model_case);
    }
  }
  return cases;
}

class ModelHooks : public ::testing::TestWithParam<ModelCase> {
 protected:
  void SetUp() override {
    const auto& [name, config, samples, tokens] = GetParam();
    model_ = make_bent_model(config);
    batch_ = make_batch(config, samples, tokens);
  }
  std::unique_ptr<Model> model_;
  TestBatch batch_;
};

class Recorder : public Hooks {
 public:
  void pre_forward(const Unit& unit) override { forward.push_back("pre " + unit.name); }
  void post_forward(const Unit& unit) override { forward.push_back("post " + unit.name); }
  void pre_backward(const Unit& unit) override {
    EXPECT_TRUE(unit.backward_reads);
    backward.push_back(unit.name);
  }
  void pre_gradient(const Unit& unit) override {
    begun_units.push_back(unit.name);
    begun.insert(begun.end(), unit.parameters.begin(), unit.parameters.end());
  }
  void grad_ready(Parameter& parameter) override {
    EXPECT_NE(std::find(begun.begin(), begun.end(), &parameter), begun.end())
        << parameter.name << " was ready before its unit began";
    ready.push_back(&parameter);
    at_ready.push_back(ops::copy_of(parameter.gradient));
  }
  void end_pass() override { ++passes; }

  int passes = 0;
  std::vector<std::string> forward, backward, begun_units;
  std::vector<const Parameter*> begun, ready;
  std::vector<Tensor> at_ready;  // the gradient when grad_ready was called
};

TEST_P(ModelHooks, UnitsComeOnceAndInOrder) {
  Recorder recorder;
  run_pass(*model_, batch_.input(), {}, &recorder);
  std::vector<std::string> forward, backward, begun;
  for (const Unit& unit : model_->units()) {
    begun.insert(begun.begin(), unit.name);
    forward.push_back("pre " + unit.name);
    forward.push_back("post " + unit.name);
    if (unit.backward_reads) backward.insert(backward.begin(), unit.name);
  }
  EXPECT_EQ(recorder.forward, forward);
  EXPECT_EQ(recorder.backward, backward);
  EXPECT_EQ(recorder.begun_units, begun);
  EXPECT_EQ(recorder.passes, 1);
}

TEST_P(ModelHooks, EveryParameterBelongsToAUnitAndUnitsAreNamedApart) {
  std::set<const Parameter*> members;
  std::set<std::string> names;
  for (const Unit& unit : model_->units()) {
    members.insert(unit.parameters.begin(), unit.parameters.end());
    EXPECT_TRUE(names.insert(unit.name).second) << unit.name;
  }
  EXPECT_EQ(members.size(), model_->parameters().all().size());
}

TEST_P(ModelHooks, GradientsAreReadyOnceAndFinalWhenTheyAre) {
  Recorder recorder;
  run_pass(*model_, batch_.input(), {}, &recorder);
  EXPECT_EQ(recorder.ready.size(), model_->parameters().all().size());
  EXPECT_EQ(std::set<const Parameter*>(recorder.ready.begin(), recorder.ready.end()).size(), recorder.ready.size());
  for (std::size_t i = 0; i < recorder.ready.size(); ++i) {
    EXPECT_TRUE(ops::same_bits(recorder.at_ready[i], recorder.ready[i]->gradient)) << recorder.ready[i]->name;
  }
}

// A tied weight counts for the first unit that holds it, where backward uses it last.
TEST_P(ModelHooks, GradientsAreReadyFromTheLastUnitToTheFirst) {
  Recorder recorder;
  run_pass(*model_, batch_.input(), {}, &recorder);
  std::size_t previous = model_->units().size();
  for (const Parameter* parameter : recorder.ready) {
    const auto holds = [&](const Unit& unit) {
      return std::find(unit.parameters.begin(), unit.parameters.end(), parameter) != unit.parameters.end();
    };
    const auto unit = std::find_if(model_->units().begin(), model_->units().end(), holds);
    const auto index = static_cast<std::size_t>(unit - model_->units().begin());
    EXPECT_LE(index, previous) << parameter->name;
    previous = index;
  }
}

// What sharded weights (ZeRO-3) rely on: a unit's weights are read between its pre_forward and its post_forward, and from its
// pre_backward to that of the next unit; all other weights hold NaN then. That the weights alone hold the result: same bits.
class OnlyOneUnit : public Hooks {
 public:
  explicit OnlyOneUnit(const Model& model)
      : model_(model),
        values_(ops::copy_of(model.parameters().flat_values())),
        nothing_(flat_tensor(model.parameters(), Array(static_cast<std::size_t>(model.parameters().elements()), ops::kGarbage))) {
    hide();
  }
  ~OnlyOneUnit() override { model_.parameters().flat_values().copy_from(values_); }

  void pre_forward(const Unit& unit) override { show(unit); }
  void post_forward(const Unit&) override { hide(); }
  void pre_backward(const Unit& unit) override {
    hide();
    show(unit);
  }

 private:
  void hide() { model_.parameters().flat_values().copy_from(nothing_); }
  void show(const Unit& unit) {
    for (const Parameter* parameter : unit.parameters) {
      const Count offset = parameter->offset;
      parameter->value.copy_from(values_.slice(offset, offset + parameter->elements()).reshaped(parameter->value.shape()));
    }
  }

  const Model& model_;
  Tensor values_;
  Tensor nothing_;  // NaN for every weight; padding, which belongs to no unit, stays zero
};

// What the watch of a long pass relies on.
TEST_P(ModelHooks, EveryLayerShowsLifeInBothDirections) {
  static int signs = 0;
  signs = 0;
  run_pass(*model_, batch_.input(), {.heartbeat = [] { ++signs; }});
  EXPECT_GE(signs, 2 * GetParam().config.layers);
}

TEST_P(ModelHooks, WeightsAreReadBetweenTheHooksOnly) {
  const Pass expected = run_pass(*model_, batch_.input());
  OnlyOneUnit hooks(*model_);
  const Pass pass = run_pass(*model_, batch_.input(), {}, &hooks);
  EXPECT_EQ(pass.loss, expected.loss);
  EXPECT_TRUE(ops::same_bits(pass.gradients, expected.gradients));
}

INSTANTIATE_TEST_SUITE_P(Models, ModelHooks, ::testing::ValuesIn(hook_cases()), name_of_case);

}  // namespace
}  // namespace cohort::test
