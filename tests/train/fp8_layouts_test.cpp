// Whole runs whose linear layers multiply in 8 bits, in layouts: the curve of bf16, and that of one another.
#include <algorithm>
#include <cmath>

#include "ops/fp8_on_host.hpp"
#include "trainer_fixture.hpp"

namespace cohort::test {
namespace {

class Fp8Layouts : public TrainerTest {
 protected:
  static constexpr std::size_t kSteps = 50;

  Fp8Layouts() { ops::on_host::use(); }

  // A run file has the policy for GPUs alone; here a CPU has the ops as well.
  std::vector<double> losses(const std::string& policy, const std::string& layout, Overrides overrides) const {
    const std::string name = policy + layout;
    overrides.insert(overrides.end(), {"run.name=" + name, fmt::format("train.steps={}", kSteps), "precision.policy=bf16",
                                       fmt::format("schedule.decay_steps={}", kSteps), "model.width=32", "model.context=16",
                                       "train.global_batch=16", "train.micro_batch=4", "train.validate_every=0",
                                       "checkpoint.every=0", "optimizer.learning_rate=3e-3"});
    RunConfig run = config(overrides);
    run.precision.policy = policy;
    EXPECT_EQ(train(run), ExitCode::success) << name;
    return remains(name).series("loss");
  }
};

double largest_relative(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]) / b[i]);
  return largest;
}

// A gradient in 8 bits is off by a tenth, mostly without direction, and so each step is off by less: the losses of Micikevicius
// et al. 2022 (section 4) are those of 16 bits within some tenths of a percent.
constexpr double kOfBf16 = 5e-3;

TEST_F(Fp8Layouts, LossesAreThoseOfBf16InEveryLayout) {
  std::vector<std::pair<std::string, Overrides>> layouts{{"bucketed", {"parallel.data=bucketed"}}};
  if (world_->size() > 1) {
    layouts.push_back({"zero1", {"parallel.data=zero1"}});
    layouts.push_back({"zero2", {"parallel.data=zero2"}});
    layouts.push_back({"zero3", {"parallel.data=zero3"}});
    layouts.push_back({"tp", {"parallel.tp=2"}});
    layouts.push_back({"tp_sequence", {"parallel.tp=2", "parallel.sequence=true"}});
    layouts.push_back({"pp", {"parallel.pp=2"}});
  }
  std::vector<double> first;
  for (const auto& [name, overrides] : layouts) {
    const std::vector<double> bf16 = losses("bf16", name, overrides), fp8 = losses("fp8", name, overrides);
    ASSERT_EQ(fp8.size(), kSteps);
    ASSERT_EQ(bf16.size(), kSteps);
    EXPECT_LT(bf16.back(), 0.95 * bf16.front()) << name << ": the curve must have a shape to compare";
    EXPECT_LT(largest_relative(fp8, bf16), kOfBf16) << name;
    EXPECT_NE(fp8, bf16) << name << ": they are to have been computed in another type";
    if (first.empty()) first = fp8;
    // With scales that are powers of two a shard is rounded as the whole is (ops/fp8.hpp).
    EXPECT_LT(largest_relative(fp8, first), kOfBf16) << name;
  }
}

}  // namespace
}  // namespace cohort::test
