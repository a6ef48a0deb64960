// GPT-2 and Llama against Hugging Face's transformers: logits of every position, loss and all gradients, from the same weights.
// tools/make_parity_fixtures.py made the numbers and says how.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <tuple>

#include "gradient_check.hpp"
#include "parity_fixture.hpp"

namespace cohort::test {
namespace {

// A logit, of size 1 to 6 here, passes through some ten ops that each contribute ops::sum_error, 2e-6 or so, with random signs.
// What the fixture holds is the double rounded to fp32.
constexpr double kLogitError = 1e-5;

// As GradientCheck::kTolerance, and relative to the same scale: some thirty ops of forward and backward, with random signs.
constexpr double kGradientError = 3e-5;

// How far a model that computes in a type may be from the fixture.
struct Tolerances {
  double logit;
  double loss;
  double gradient;  // relative to gradient_scale_of with `of_unit`
  double of_unit;
};

Tolerances tolerances_of(const ParityFixture& fixture, DType type) {
  // The loss of one target is a difference of logits, and the mean errs no more than the worst of its terms.
  if (type == DType::f32) return {.logit = kLogitError, .loss = kLogitError, .gradient = kGradientError, .of_unit = 0.01};
  const Rounding rounding(type);  // the fixture's weights are exact in 16 bits
  const double size = largest(fixture.logits);
  return {.logit = rounding.logit * size,
          .loss = rounding.loss(fixture.counted) * size,
          .gradient = rounding.gradient,
          .of_unit = rounding.of_unit};
}

::testing::AssertionResult same_logits(Model& model, const ParityFixture& fixture) {
  const Count classes = fixture.config.vocabulary;
  for (Count tokens = 1; tokens <= fixture.tokens; ++tokens) {
    const TestBatch prefix = prefix_of(fixture, tokens);
    const Array actual = ops::values_of(run_last_logits(model, prefix.input()));
    Array expected;
    for (Count sample = 0; sample < prefix.samples; ++sample) {
      const auto row = fixture.logits.begin() + (sample * fixture.tokens + tokens - 1) * classes;
      expected.insert(expected.end(), row, row + classes);
    }
    const auto result = ops::close(actual, expected, Array{tolerances_of(fixture, model.storage().compute).logit});
    if (!result) return ::testing::AssertionFailure() << "logits of token " << tokens - 1 << ": " << result.message();
  }
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult same_gradients(Model& model, const ParityFixture& fixture) {
  const float scale = 1.0f / static_cast<float>(fixture.counted);
  const Pass pass = run_pass(model, fixture.batch.input(), {.gradient_scale = scale});
  const Tolerances allowed = tolerances_of(fixture, model.storage().compute);
  for (const auto& [name, values] : by_name(model.parameters(), pass.gradients)) {
    const Array& expected = fixture.gradients.at(name);
    const double tolerance = allowed.gradient * gradient_scale_of(model, fixture.gradients, name, allowed.of_unit);
    const auto result = ops::close(values, expected, Array{tolerance});
    if (!result) return ::testing::AssertionFailure() << "gradient of " << name << ": " << result.message();
  }
  return ::testing::AssertionSuccess();
}

// On a GPU attention in 16 bits takes heads whose size is a multiple of 8.
bool device_takes(const ParityFixture& fixture, DType type) {
  const Count head_size = fixture.config.width / fixture.config.heads;
  return test_device() == DeviceKind::cpu || type == DType::f32 || head_size % 8 == 0;
}

class PyTorchParity : public ::testing::TestWithParam<std::tuple<std::string, DType>> {
 protected:
  void SetUp() override {
    fixture_ = read_parity_fixture(std::get<0>(GetParam()));
    if (!device_takes(fixture_, type())) {
      GTEST_SKIP() << "a GPU takes no heads of " << fixture_.config.width / fixture_.config.heads << " in " << name_of(type());
    }
    model_ = make_parity_model(fixture_, type());
  }
  DType type() const { return std::get<1>(GetParam()); }

  ParityFixture fixture_;
  std::unique_ptr<Model> model_;
};

TEST_P(PyTorchParity, LogitsOfEveryPosition) {
  EXPECT_TRUE(same_logits(*model_, fixture_));
  EXPECT_LT(largest(fixture_.logits), 10.0);  // what kLogitError was made for
}

TEST_P(PyTorchParity, Loss) {
  const auto counted = static_cast<double>(fixture_.counted);
  const double tolerance = tolerances_of(fixture_, type()).loss;
  EXPECT_NEAR(run_loss(*model_, fixture_.batch.input()) / counted, fixture_.loss, tolerance);
  EXPECT_NEAR(run_pass(*model_, fixture_.batch.input()).loss / counted, fixture_.loss, tolerance);
}

TEST_P(PyTorchParity, GradientsOfAllParameters) { EXPECT_TRUE(same_gradients(*model_, fixture_)); }

INSTANTIATE_TEST_SUITE_P(Models, PyTorchParity,
                         ::testing::Combine(::testing::ValuesIn(parity_fixture_names()),
                                            ::testing::Values(DType::f32, DType::bf16, DType::f16)),
                         [](const auto& instance) {
                           return fmt::format("{}_{}", std::get<0>(instance.param), name_of(std::get<1>(instance.param)));
                         });

// The comparison can fail: each of these models differs from transformers' by one mistake in reading its weights or its config.
class PlantedDifference : public ::testing::Test {
 protected:
  static void expect_rejected(const ParityFixture& fixture) {
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
      if (!device_takes(fixture, type)) continue;
      const auto model = make_parity_model(fixture, type);
      EXPECT_FALSE(same_logits(*model, fixture)) << name_of(type);
      EXPECT_FALSE(same_gradients(*model, fixture)) << name_of(type);
    }
  }
  // weight[i] = old weight[source_of(i)] for the rows of a matrix
  static void take_rows(Array& weight, Count rows, const std::function<Count(Count)>& source_of) {
    const Array old = weight;
    const Count columns = static_cast<Count>(old.size()) / rows;
    for (Count row = 0; row < rows; ++row) {
      std::copy_n(old.begin() + source_of(row) * columns, columns, weight.begin() + row * columns);
    }
  }
};

TEST_F(PlantedDifference, QueryAndKeySwapped) {
  for (const char* name : {"gpt2", "llama_all_kv_heads"}) {
    SCOPED_TRACE(name);
    ParityFixture fixture = read_parity_fixture(name);
    fixture.weights.at("blocks.1.attention.query.weight").swap(fixture.weights.at("blocks.1.attention.key.weight"));
    expect_rejected(fixture);
  }
}

TEST_F(PlantedDifference, GateAndUpSwapped) {
  ParityFixture fixture = read_parity_fixture("llama_grouped");
  fixture.weights.at("blocks.0.feed_forward.gate.weight").swap(fixture.weights.at("blocks.0.feed_forward.up.weight"));
  expect_rejected(fixture);
}

TEST_F(PlantedDifference, SquareWeightTransposed) {
  ParityFixture fixture = read_parity_fixture("gpt2");
  Array& weight = fixture.weights.at("blocks.1.attention.output.weight");
  const Array old = weight;
  const auto width = static_cast<std::size_t>(fixture.config.width);
  for (std::size_t i = 0; i < old.size(); ++i) weight[i] = old[i % width * width + i / width];
  expect_rejected(fixture);
}

// With the second half of each head's rows negated in both query and key, turning by an angle does what turning by its opposite
// did.
TEST_F(PlantedDifference, RotaryTurnsBackward) {
  ParityFixture fixture = read_parity_fixture("llama_head_size_64");
  const Count head_size = fixture.config.width / fixture.config.heads;
  for (const char* name : {"blocks.0.attention.query.weight", "blocks.0.attention.key.weight"}) {
    Array& weight = fixture.weights.at(name);
    for (std::size_t i = 0; i < weight.size(); ++i) {
      if (static_cast<Count>(i) / fixture.config.width % head_size >= head_size / 2) weight[i] = -weight[i];
    }
  }
  expect_rejected(fixture);
}

// Rotary pairs of neighbours (2i, 2i + 1), as in the weights that Meta published, for those of halves (i, i + head_size / 2).
TEST_F(PlantedDifference, RotaryPairsNeighbours) {
  ParityFixture fixture = read_parity_fixture("llama_head_size_64");
  const Count head_size = fixture.config.width / fixture.config.heads;
  const auto neighbours = [&](Count row) {
    const Count in_head = row % head_size;
    return row - in_head + in_head % (head_size / 2) * 2 + in_head / (head_size / 2);
  };
  take_rows(fixture.weights.at("blocks.0.attention.query.weight"), fixture.config.width, neighbours);
  take_rows(fixture.weights.at("blocks.0.attention.key.weight"), fixture.config.kv_heads * head_size, neighbours);
  expect_rejected(fixture);
}

// Query heads 0, 1, 2, 3 with key heads 0, 1, 0, 1 instead of 0, 0, 1, 1.
TEST_F(PlantedDifference, KeyHeadsTakenInTurns) {
  ParityFixture fixture = read_parity_fixture("llama_grouped");
  const Count width = fixture.config.width, head_size = width / fixture.config.heads;
  ASSERT_EQ(fixture.config.heads, 4);
  ASSERT_EQ(fixture.config.kv_heads, 2);
  const auto in_turns = [&](Count row) {
    const Count head = row / head_size;
    return (head % 2 * 2 + head / 2) * head_size + row % head_size;
  };
  take_rows(fixture.weights.at("blocks.0.attention.query.weight"), width, in_turns);
  Array& output = fixture.weights.at("blocks.0.attention.output.weight");
  const Array old = output;
  for (Count i = 0; i < width * width; ++i) {
    output[static_cast<std::size_t>(i)] = old[static_cast<std::size_t>(i / width * width + in_turns(i % width))];
  }
  expect_rejected(fixture);
}

TEST_F(PlantedDifference, ConfigOfItsOwnIgnored) {
  ParityFixture fixture = read_parity_fixture("llama_grouped");
  fixture.config.rope_theta = ModelSection{}.rope_theta;
  expect_rejected(fixture);
  for (const char* name : {"gpt2_untied_odd_sizes", "llama_one_kv_head_odd_sizes"}) {
    fixture = read_parity_fixture(name);
    fixture.config.norm_epsilon = ModelSection{}.norm_epsilon;
    expect_rejected(fixture);
  }
}

}  // namespace
}  // namespace cohort::test
