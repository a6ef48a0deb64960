// Whole runs in 16 bits: the loss curve of fp32, loss scaling, and what happens when something is not finite.
#include <algorithm>
#include <cmath>

#include "checkpoint/read/reader.hpp"
#include "checkpoint/write/save.hpp"
#include "support/expect_error.hpp"
#include "trainer_fixture.hpp"

namespace cohort::test {
namespace {

class Precision : public TrainerTest {
 protected:
  // Twenty steps of a model of this kind.
  std::vector<double> losses(const std::string& kind, const std::string& name, Overrides overrides) const {
    overrides.insert(overrides.end(), {"run.name=" + name, "train.steps=20", "schedule.decay_steps=20"});
    EXPECT_EQ(train(kind == "llama" ? llama_config(overrides) : config(overrides)), ExitCode::success) << name;
    return remains(name).series("loss");
  }
  TrainingState state_of(const std::string& name) const {
    world_->barrier();
    return read_training_state(resolve_checkpoint(folder_ / name));
  }
  // How many lines of this rank's log have this text.
  std::size_t count_in_log(const std::string& name, const std::string& text) const {
    const std::string log = text_of(folder_ / name / "logs" / fmt::format("rank_{}", world_->rank()) / "train.log");
    std::size_t count = 0;
    for (std::size_t at = log.find(text); at != std::string::npos; at = log.find(text, at + 1)) ++count;
    return count;
  }
};

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

// A number keeps 8 bits in bf16 and 11 in fp16: one rounding errs by 2^-9 and 2^-12 of it at most. Some thirty in a row, through
// forward and backward, with random signs: sqrt(30) times that, a hundredth of each gradient in bf16. The steps that are made of
// them, and the fall of the loss that is made of the steps, are off by about as much; twice that is allowed.
constexpr double kBf16 = 2e-2;
constexpr double kFp16 = kBf16 / 8;

TEST_F(Precision, LossCurvesIn16BitsAreThatOfFp32) {
  for (const char* kind : {"gpt2", "llama"}) {
    const auto fp32 = losses(kind, fmt::format("{}_fp32", kind), {});
    const auto bf16 = losses(kind, fmt::format("{}_bf16", kind), {"precision.policy=bf16"});
    const auto fp16 = losses(kind, fmt::format("{}_fp16", kind), {"precision.policy=fp16"});
    ASSERT_EQ(fp32.size(), 20u);
    ASSERT_EQ(bf16.size(), 20u);
    ASSERT_EQ(fp16.size(), 20u);
    const double fall = fp32.front() - fp32.back();
    EXPECT_GT(fall, 0.2) << "the curve must have a shape to compare";
    EXPECT_LT(largest_difference(fp32, bf16), kBf16 * fall) << kind;
    EXPECT_LT(largest_difference(fp32, fp16), kFp16 * fall) << kind;
    EXPECT_NE(fp32, bf16) << kind << ": they are to have been computed in another type";
    EXPECT_NE(fp32, fp16) << kind;
    // The comparison can fail: a learning rate that is a tenth too large shows.
    const auto faster = losses(kind, fmt::format("{}_faster", kind), {"optimizer.learning_rate=1.1e-2"});
    EXPECT_GT(largest_difference(fp32, faster), kBf16 * fall) << kind;
    EXPECT_EQ(count_in_log(fmt::format("{}_fp16", kind), "overflowed"), 0u);
  }
}

// bf16 checkpoints hold the fp32 weights, so a run goes on from them in any type; but it says so.
TEST_F(Precision, ACheckpointGoesOnInAnotherTypeIfAllowed) {
  ASSERT_EQ(train(config({"run.name=run", "train.steps=5", "precision.policy=bf16"})), ExitCode::success);
  EXPECT_ERROR(train(config({"run.name=run"}), ExistingRun::resume), ExitCode::config, "precision.policy", "--allow-changes");
  EXPECT_EQ(train(config({"run.name=run"}), ExistingRun::resume, true), ExitCode::success);
}

TEST_F(Precision, Bf16GoesOnBitForBit) {
  std::vector<Overrides> layouts{{}};
  if (world_->size() % 2 == 0) layouts.push_back({"parallel.tp=2", "parallel.sequence=true", "parallel.tensor_overlap=true"});
  for (const Overrides& layout : layouts) {
    const std::string ring = layout.empty() ? "" : "_ring";
    const auto run = [&](const std::string& name, const char* steps, ExistingRun existing) {
      Overrides all{"run.name=" + name + ring, fmt::format("train.steps={}", steps), "precision.policy=bf16"};
      all.insert(all.end(), layout.begin(), layout.end());
      ASSERT_EQ(train(config(all), existing), ExitCode::success);
    };
    run("ten", "10", ExistingRun::refuse);
    run("twice", "5", ExistingRun::refuse);
    run("twice", "10", ExistingRun::resume);
    if (HasFatalFailure()) return;
    EXPECT_EQ(remains("twice" + ring).tensors, remains("ten" + ring).tensors);
    EXPECT_EQ(remains("twice" + ring).series("loss"), remains("ten" + ring).series("loss"));
  }
}

// A factor that no run file may ask for: the first steps overflow, each halves it, and then the run goes on.
RunConfig with_absurd_scale(RunConfig config) {
  config.precision.loss_scale = 0x1p28;
  return config;
}

TEST_F(Precision, OverflowsAreSkippedAndTheRunGoesOn) {
  const Overrides overrides{"run.name=run", "precision.policy=fp16", "train.steps=20", "schedule.decay_steps=20"};
  ASSERT_EQ(train(with_absurd_scale(config(overrides))), ExitCode::success);
  const auto skips = static_cast<int>(count_in_log("run", "gradients overflowed; the step was skipped"));
  EXPECT_GT(skips, 0);
  EXPECT_LT(skips, 10);
  const TrainingState state = state_of("run");
  EXPECT_EQ(std::stod(state.loss_scale), std::ldexp(0x1p28, -skips));
  EXPECT_GT(state.loss_scale_good_steps, 0);
  EXPECT_LE(state.loss_scale_good_steps, 20 - skips);  // a later overflow, too, sets it back
  const Remains run = remains("run");
  EXPECT_EQ(run.metrics.size(), 20u) << "a skipped step is a step";
  const std::vector<double> losses = run.series("loss");
  for (const double loss : losses) EXPECT_TRUE(std::isfinite(loss));
  EXPECT_LT(losses.back(), losses.front() - 0.1);
}

// The factor doubles at each step, until it overflows and falls back: what a checkpoint says of it decides what the resumed run
// does.
TEST_F(Precision, ALossScaleGoesOnBitForBit) {
  const auto named = [&](const char* name, const char* steps) {
    return config({fmt::format("run.name={}", name), fmt::format("train.steps={}", steps), "precision.policy=fp16",
                   "precision.loss_scale=524288", "precision.loss_scale_interval=1"});
  };
  ASSERT_EQ(train(named("ten", "10")), ExitCode::success);
  EXPECT_GT(count_in_log("ten", "gradients overflowed"), 0u);
  for (const char* steps : {"3", "6", "9"}) {
    SCOPED_TRACE(steps);
    ASSERT_EQ(train(named("twice", steps), ExistingRun::overwrite), ExitCode::success);
    ASSERT_EQ(train(named("twice", "10"), ExistingRun::resume), ExitCode::success);
    const TrainingState ten = state_of("ten"), twice = state_of("twice");
    EXPECT_NE(ten.loss_scale, "524288");
    EXPECT_EQ(twice.loss_scale, ten.loss_scale);
    EXPECT_EQ(twice.loss_scale_good_steps, ten.loss_scale_good_steps);
    EXPECT_EQ(remains("twice").tensors, remains("ten").tensors);
    EXPECT_EQ(remains("twice").series("loss"), remains("ten").series("loss"));
  }
}

TEST_F(Precision, BelowTheFloorTheRunStops) {
  RunConfig run = with_absurd_scale(config({"run.name=run", "precision.policy=fp16"}));
  run.precision.min_loss_scale = 0x1p27;
  EXPECT_ERROR(train(run), ExitCode::training, "step 2: loss", "min_loss_scale", "bf16",
               "the first non-finite gradient is that of");
}

// Sums over ranks in bf16: less exact, but the same training, and the same on all ranks.
TEST_F(Precision, ReductionInTheTypeOfThePolicy) {
  const auto fp32 = losses("gpt2", "fp32", {"precision.policy=bf16"});
  const auto bf16 = losses("gpt2", "bf16", {"precision.policy=bf16", "precision.reduction=compute"});
  EXPECT_LT(largest_difference(fp32, bf16), kBf16 * (fp32.front() - fp32.back()));
  if (world_->size() == 1) {
    EXPECT_EQ(fp32, bf16) << "nothing is summed on one rank";
  } else {
    EXPECT_NE(fp32, bf16);
  }
}

}  // namespace
}  // namespace cohort::test
