// One rank's step when something is not finite: nothing changes, and the first layer to blame is found.
#include "train/train_step.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "comm/self_communicator.hpp"
#include "config/run_file.hpp"
#include "config/validate.hpp"
#include "ops/compare.hpp"
#include "train/input_buffer.hpp"

namespace cohort::test {
namespace {

using ops::Array;

RunConfig config_of(const std::string& kind, const std::vector<std::string>& overrides) {
  const std::string text =
      kind == "mlp" ? "[model]\nkind = 'mlp'\nlayers = 3\nwidth = 8\ninputs = 4\n[data]\nkind = 'two_moons'\nsamples = 100\n"
                    : "[model]\nkind = '" + kind +
                          "'\nlayers = 3\nwidth = 16\nheads = 2\ncontext = 8\nvocabulary = 19\n[data]\ntokens = 'none.h5'\n";
  RunConfig config = parse_run_file(text, "test.toml", overrides);
  config.device.kind = test::test_device_key();
  validate(config, 1, {.cuda = gpu::built()});
  return config;
}

// A step and a batch for it.
struct Training {
  explicit Training(const std::string& kind, const std::vector<std::string>& overrides = {})
      : config(config_of(kind, overrides)), train_step(config, mesh) {
    const Count samples = config.train.micro_batch, length = kind == "mlp" ? 1 : config.model.context;
    inputs = ops::random_indices(samples * length, 19, 1);
    targets = ops::random_indices(samples * length, kind == "mlp" ? 2 : 19, 2);
    features.assign(static_cast<std::size_t>(samples * config.model.inputs), 0.5f);
    slots.resize(static_cast<std::size_t>(samples));
    input = buffer.put({samples, inputs, targets, features, slots});
  }
  StepResult step(Count number) {
    const auto valid = static_cast<Count>(targets.size());
    return train_step.run({number, std::span(&input, 1), valid, valid}, timers);
  }
  const ParameterRegistry& parameters() { return train_step.model().parameters(); }
  // All weights, moments and what layers read.
  std::vector<Array> state() {
    std::vector<Array> state{ops::values_of(parameters().flat_values()), ops::values_of(parameters().flat_compute())};
    for (const auto& parameter : parameters().all()) {
      for (const char* slot : {"m", "v"}) state.push_back(ops::values_of(parameter->optimizer_state.at(slot)));
    }
    return state;
  }
  void set_first_element(const std::string& name, float value) {
    const Tensor& weights = parameters().find(name)->value;
    Array values = ops::values_of(weights);
    values.front() = value;
    weights.copy_from(ops::tensor_of(values, weights.shape()));
    parameters().values_changed();
  }

  RunConfig config;
  std::unique_ptr<Communicator> self = make_self_communicator("world");
  Mesh mesh{*self, MeshShape(1, 1, 1, 1), test_device()};
  TrainStep train_step;
  StepTimers timers;
  std::vector<std::int32_t> inputs, targets;
  std::vector<float> features;
  std::vector<Count> slots;
  InputBuffer buffer{test_device(), 19};
  ModelInput input;  // on the device
};

TEST(TrainStep, AStepMovesTheWeightsAndSaysSo) {
  for (const char* policy : {"fp32", "bf16", "fp16"}) {
    Training training("gpt2", {fmt::format("precision.policy={}", policy)});
    const auto before = training.state();
    const StepResult result = training.step(0);
    EXPECT_FALSE(result.skipped) << policy;
    EXPECT_NEAR(result.loss, std::log(19.0), 0.3) << policy;  // an untrained model knows nothing
    EXPECT_EQ(result.own_loss, result.loss) << policy;
    EXPECT_GT(result.gradient_norm, 0.0) << policy;
    EXPECT_NE(training.state(), before) << policy;
  }
}

// Four samples a step with a rate for one, by both rules, against the rates written out: the same steps, bit for bit.
TEST(TrainStep, TakesTheRateOfItsBatch) {
  const auto trained = [](const std::vector<std::string>& overrides) {
    Training training("gpt2", overrides);
    const double rate = training.step(0).learning_rate;
    return std::pair{rate, training.state()};
  };
  const std::string batch = "train.micro_batch=4", rate = "optimizer.learning_rate=0.0625", of_one = "optimizer.rate_batch=1";
  const auto linear = trained({batch, rate, of_one, "optimizer.rate_scaling=linear"});
  EXPECT_EQ(linear, trained({batch, "optimizer.learning_rate=0.25"}));
  EXPECT_EQ(trained({batch, rate, of_one, "optimizer.rate_scaling=sqrt"}), trained({batch, "optimizer.learning_rate=0.125"}));
  EXPECT_NE(linear.second, trained({batch, rate}).second);
}

TEST(TrainStep, NoStepIsMadeFromALossThatIsNotFinite) {
  for (const char* policy : {"fp32", "bf16", "fp16"}) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      Training training("gpt2", {fmt::format("precision.policy={}", policy)});
      training.step(0);
      training.set_first_element("norm.weight", bad);
      const auto before = training.state();
      const StepResult result = training.step(1);
      EXPECT_TRUE(result.skipped) << policy;
      EXPECT_FALSE(std::isfinite(result.loss)) << policy;
      const auto after = training.state();
      for (std::size_t i = 0; i < before.size(); ++i) {
        // NaN, the planted weight, is not equal to itself.
        for (std::size_t j = 0; j < before[i].size(); ++j) {
          ASSERT_TRUE(before[i][j] == after[i][j] || std::isnan(before[i][j])) << policy << ", tensor " << i << ", element " << j;
        }
      }
      training.set_first_element("norm.weight", 1.0f);
      EXPECT_FALSE(training.step(2).skipped) << policy << ": a skipped step leaves nothing behind";
    }
  }
}

TEST(TrainStep, PortableKernelsTakeTheSameSteps) {
  for (const char* kind : {"gpt2", "llama", "mlp"}) {
    Training tuned(kind), portable(kind, {"device.kernels=portable"});
    EXPECT_EQ(tuned.train_step.exec().kernels, ops::Kernels::tuned);
    ASSERT_EQ(portable.train_step.exec().kernels, ops::Kernels::portable);
    for (Count number = 0; number < 5; ++number) {
      // The two sum in other orders, which changes the last bits of fp32, 6e-8; a few hundred of them add up to less than 1e-5.
      const StepResult expected = tuned.step(number), result = portable.step(number);
      EXPECT_NEAR(result.loss, expected.loss, 1e-5 * expected.loss) << kind << ", step " << number;
      EXPECT_NEAR(result.gradient_norm, expected.gradient_norm, 1e-4 * expected.gradient_norm) << kind << ", step " << number;
    }
  }
}

struct Blame {
  const char *kind, *parameter, *unit;
};

TEST(TrainStep, NamesTheFirstUnitThatIsNotFinite) {
  const Blame blames[] = {{"gpt2", "positions.weight", "embedding"},
                          {"gpt2", "blocks.0.attention.query.weight", "blocks.0"},
                          {"gpt2", "blocks.1.feed_forward.down.bias", "blocks.1"},
                          {"gpt2", "blocks.2.norm1.weight", "blocks.2"},
                          {"gpt2", "norm.bias", "head"},
                          {"llama", "blocks.0.feed_forward.gate.weight", "blocks.0"},
                          {"llama", "blocks.2.attention.value.weight", "blocks.2"},
                          {"llama", "norm.weight", "head"},
                          {"mlp", "layers.0.weight", "layers.0"},
                          {"mlp", "layers.2.bias", "layers.2"},
                          {"mlp", "head.bias", "head"}};
  for (const auto& [kind, parameter, unit] : blames) {
    for (const char* policy : {"fp32", "bf16"}) {
      SCOPED_TRACE(fmt::format("{} {} {}", kind, parameter, policy));
      Training training(kind, {fmt::format("precision.policy={}", policy)});
      training.step(0);
      EXPECT_EQ(training.train_step.first_unit_not_finite(std::span(&training.input, 1)), "");
      training.set_first_element(parameter, std::numeric_limits<float>::quiet_NaN());
      EXPECT_EQ(training.train_step.first_unit_not_finite(std::span(&training.input, 1)), unit);
    }
  }
}

// The search is a forward pass of its own: the step that follows is as if nobody had searched.
TEST(TrainStep, TheSearchLeavesNothingBehind) {
  Training searched("gpt2", {"model.dropout=0.1"}), plain("gpt2", {"model.dropout=0.1"});
  searched.step(0);
  plain.step(0);
  searched.train_step.first_unit_not_finite(std::span(&searched.input, 1));
  EXPECT_EQ(searched.step(1).loss, plain.step(1).loss);
  EXPECT_EQ(searched.state(), plain.state());
}

// fp16 ends at 65504. The gradients of the logits are (p - 1) / targets times the factor: they overflow as long as that is more.
TEST(TrainStep, AnAbsurdLossScaleBacksOffUntilItFits) {
  Training training("gpt2", {"precision.policy=fp16"});
  training.train_step.restore_loss_scale(0x1p40, 5);
  const auto before = training.state();
  const auto targets = static_cast<double>(training.targets.size());
  int skips = 0;
  while (training.step(0).skipped) {
    ++skips;
    ASSERT_LT(skips, 40);
    ASSERT_EQ(training.train_step.loss_scale().scale(), std::ldexp(1.0, 40 - skips));
    ASSERT_EQ(training.train_step.loss_scale().good_steps(), 0);
    ASSERT_EQ(training.state(), before) << "after " << skips << " skips";
  }
  EXPECT_EQ(training.train_step.loss_scale().good_steps(), 1);
  const double fits = training.train_step.loss_scale().scale();
  EXPECT_LT(0.9 * fits / targets, 65504.0) << "p is a nineteenth or so";
  EXPECT_GT(fits / targets, 65504.0 / 8.0) << "not a tenth of what would fit: other gradients are smaller than those";
  EXPECT_NE(training.state(), before);
}

// The same gradients under any factor that fits: a power of two takes no bit from a number, but for those so small that fp16
// keeps fewer digits of them, a thousandth of the whole.
TEST(TrainStep, TheLossScaleIsNotInTheGradientNorm) {
  double norms[2] = {};
  for (const int i : {0, 1}) {
    Training training("gpt2", {"precision.policy=fp16", fmt::format("precision.loss_scale={}", i == 0 ? 1024.0 : 65536.0)});
    const StepResult result = training.step(0);
    ASSERT_FALSE(result.skipped);
    norms[i] = result.gradient_norm;
  }
  EXPECT_NEAR(norms[0], norms[1], 1e-3 * norms[1]);
}

}  // namespace
}  // namespace cohort::test
