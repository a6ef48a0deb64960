// GPT-2 and Llama against Hugging Face's transformers: logits of every position, loss and all gradients, from the same weights.
// tools/make_parity_fixtures.py made the numbers and says how.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "gradient_check.hpp"
#include "parity_fixture.hpp"

namespace cohort::test {
namespace {

// A logit, of size 1 to 6 here, passes through some ten ops that each contribute ops::sum_error, 2e-6 or so, with random signs.
// What the fixture holds is the double rounded to fp32.
constexpr double kLogitError = 1e-5;

// As GradientCheck::kTolerance, and relative to the same scale: some thirty ops of forward and backward, with random signs.
constexpr double kGradientError = 3e-5;

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
    const auto result = ops::close(actual, expected, Array{kLogitError});
    if (!result) return ::testing::AssertionFailure() << "logits of token " << tokens - 1 << ": " << result.message();
  }
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult same_gradients(Model& model, const ParityFixture& fixture) {
  const float scale = 1.0f / static_cast<float>(fixture.counted);
  const Pass pass = run_pass(model, fixture.batch.input(), {.gradient_scale = scale});
  for (const auto& [name, values] : by_name(model.parameters(), pass.gradients)) {
    const Array& expected = fixture.gradients.at(name);
    const double tolerance = kGradientError * gradient_scale_of(model, fixture.gradients, name);
    const auto result = ops::close(values, expected, Array{tolerance});
    if (!result) return ::testing::AssertionFailure() << "gradient of " << name << ": " << result.message();
  }
  return ::testing::AssertionSuccess();
}

class PyTorchParity : public ::testing::TestWithParam<std::string> {};

TEST_P(PyTorchParity, LogitsOfEveryPosition) {
  const ParityFixture fixture = read_parity_fixture(GetParam());
  EXPECT_TRUE(same_logits(*make_parity_model(fixture), fixture));
  EXPECT_LT(largest(fixture.logits), 10.0);  // what kLogitError was made for
}

// The loss of one target is a difference of logits, and the mean errs no more than the worst of its terms.
TEST_P(PyTorchParity, Loss) {
  const ParityFixture fixture = read_parity_fixture(GetParam());
  const auto model = make_parity_model(fixture);
  const auto counted = static_cast<double>(fixture.counted);
  EXPECT_NEAR(run_loss(*model, fixture.batch.input()) / counted, fixture.loss, kLogitError);
  EXPECT_NEAR(run_pass(*model, fixture.batch.input()).loss / counted, fixture.loss, kLogitError);
}

TEST_P(PyTorchParity, GradientsOfAllParameters) {
  const ParityFixture fixture = read_parity_fixture(GetParam());
  EXPECT_TRUE(same_gradients(*make_parity_model(fixture), fixture));
}

INSTANTIATE_TEST_SUITE_P(Models, PyTorchParity, ::testing::ValuesIn(parity_fixture_names()),
                         [](const auto& instance) { return instance.param; });

// The comparison can fail: each of these models differs from transformers' by one mistake in reading its weights or its config.
class PlantedDifference : public ::testing::Test {
 protected:
  static void expect_rejected(const ParityFixture& fixture) {
    const auto model = make_parity_model(fixture);
    EXPECT_FALSE(same_logits(*model, fixture));
    EXPECT_FALSE(same_gradients(*model, fixture));
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
