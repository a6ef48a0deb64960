// Faults on purpose: what [fault] and --fault accept and refuse, and when the injector acts. That a job ends rightly is the
// business of tests/commands/fault_test.py.
#include "train/fault_injector.hpp"

#include <gtest/gtest.h>

#include "base/file.hpp"
#include "config/fault.hpp"
#include "config/run_file.hpp"
#include "config/validate.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

using Texts = std::vector<std::string>;

RunConfig run_of(const std::string& more = "") {
  RunConfig config =
      parse_run_file("[data]\ntokens = \"t.h5\"\n[train]\nsteps = 20\n[checkpoint]\nevery = 8\n" + more, "run.toml");
  validate(config, 4);
  return config;
}

TEST(Faults, AreReadFromTheShortForm) {
  const std::vector<FaultSection> faults =
      faults_of(run_of(), {"exit:rank=2,step=5,code=3", "kill", "slow:rank=3,step=2,seconds=0.25,phase=backward,once=false"}, 4);
  ASSERT_EQ(faults.size(), 3u);
  EXPECT_EQ(faults[0], (FaultSection{.kind = "exit", .rank = 2, .step = 5, .code = 3}));
  EXPECT_EQ(faults[1], (FaultSection{.kind = "kill"}));
  EXPECT_EQ(faults[2], (FaultSection{.kind = "slow", .rank = 3, .step = 2, .phase = "backward", .once = false, .seconds = 0.25}));
  EXPECT_EQ(describe_fault(faults[0]), "rank 2 will exit with code 3 at step 5");
  EXPECT_EQ(describe_fault(faults[2]), "rank 3 will take 0.25 s longer for each step from step 2, in backward");
}

TEST(Faults, OfTheRunFileComeFirst) {
  const RunConfig run = run_of("[fault]\nkind = \"hang\"\nrank = 1\nstep = 7\n");
  const std::vector<FaultSection> faults = faults_of(run, {"nan:rank=3"}, 4);
  ASSERT_EQ(faults.size(), 2u);
  EXPECT_EQ(faults[0], (FaultSection{.kind = "hang", .rank = 1, .step = 7}));
  EXPECT_EQ(faults[1], (FaultSection{.kind = "nan", .rank = 3}));
  EXPECT_TRUE(faults_of(run_of(), {}, 4).empty());
}

TEST(Faults, ThatCannotHappenAreRefused) {
  const RunConfig run = run_of();
  const auto refused = [&](const std::string& text) { return faults_of(run, {text}, 4); };
  EXPECT_ERROR(refused("exti:rank=2"), ExitCode::config, "--fault exti:rank=2", "did you mean \"exit\"?");
  EXPECT_ERROR(refused("none"), ExitCode::config, "none is not a fault");
  EXPECT_ERROR(refused(""), ExitCode::config, "fault.kind");
  EXPECT_ERROR(refused("exit:rnak=2"), ExitCode::config, "fault.rnak", "did you mean fault.rank?");
  EXPECT_ERROR(refused("exit:rank"), ExitCode::config, "'rank'", "KEY=VALUE");
  EXPECT_ERROR(refused("exit:rank=two"), ExitCode::config, "fault.rank must be an integer");
  EXPECT_ERROR(refused("exit:rank=4"), ExitCode::config, "fault.rank = 4", "4 ranks, 0 to 3");
  EXPECT_ERROR(refused("exit:rank=-1"), ExitCode::config, "fault.rank is out of range");
  EXPECT_ERROR(refused("exit:step=0"), ExitCode::config, "fault.step is out of range");
  EXPECT_ERROR(refused("exit:step=21"), ExitCode::config, "fault.step = 21", "train.steps = 20");
  EXPECT_ERROR(refused("exit:phase=backwards"), ExitCode::config, "did you mean \"backward\"?");
  EXPECT_ERROR(refused("exit:phase=save,step=9"), ExitCode::config, "no checkpoint is due after step 9", "checkpoint.every = 8");
  EXPECT_ERROR(refused("kill:code=3"), ExitCode::config, "fault.code has no effect", "only with exit");
  EXPECT_ERROR(refused("hang:seconds=3"), ExitCode::config, "fault.seconds has no effect", "only with slow");
  EXPECT_ERROR(refused("nan:phase=backward"), ExitCode::config, "no effect with \"nan\"");
  EXPECT_ERROR(refused("device:rank=1"), ExitCode::config, "device.kind is \"cpu\"");
  EXPECT_ERROR(faults_of(run_of("[fault]\nkind = \"exit\"\nrank = 5\n"), {}, 4), ExitCode::config, "run.toml:9",
               "fault.rank = 5");
  EXPECT_ERROR(run_of("[fault]\nrank = 1\n"), ExitCode::config, "fault.rank has no effect with fault.kind = \"none\"");
  for (const char* last : {"exit:phase=save,step=8", "exit:phase=save,step=20"}) EXPECT_EQ(refused(last).size(), 1u) << last;
}

// The injector on a rank, with `throw` as what can be seen of a fault.
class Injector : public ::testing::Test {
 protected:
  FaultInjector make(const Texts& texts, int rank) {
    return FaultInjector(faults_of(run_of(), texts, 4), rank, folder_.path(), log_, [this] { ++devices_lost_; });
  }

  test::TemporaryFolder folder_;
  RankLog log_{folder_.path(), 1, LogLevel::info, false};
  int devices_lost_ = 0;
};

TEST_F(Injector, ActsAtItsRankStepAndPhaseOnly) {
  EXPECT_TRUE(make({"throw:rank=2,step=5"}, 1).empty());
  FaultInjector at_start = make({"throw:rank=1,step=5"}, 1);
  for (const Count step : {1, 4, 6}) EXPECT_NO_THROW(at_start.begin_step(step));
  EXPECT_ERROR(at_start.begin_step(5), ExitCode::internal, "fault.kind = \"throw\"");
  FaultInjector in_backward = make({"throw:rank=1,step=6,phase=backward"}, 1);
  EXPECT_NO_THROW(in_backward.begin_step(5));
  EXPECT_NO_THROW(in_backward.enter(Phase::backward));
  EXPECT_NO_THROW(in_backward.begin_step(6));
  EXPECT_NO_THROW(in_backward.enter(Phase::forward));
  EXPECT_NO_THROW(in_backward.enter(Phase::checkpoint));
  EXPECT_ERROR(in_backward.enter(Phase::backward), ExitCode::internal, "throw");
  FaultInjector at_save = make({"throw:rank=1,step=8,phase=save"}, 1);
  at_save.begin_step(8);
  EXPECT_NO_THROW(at_save.enter(Phase::checkpoint)) << "which is the end of the save before, too";
  EXPECT_ERROR(at_save.begin_save(), ExitCode::internal, "throw");
}

TEST_F(Injector, RemembersInTheRunFolder) {
  EXPECT_ERROR(make({"throw:rank=1,step=5"}, 1).begin_step(5), ExitCode::internal, "throw");
  EXPECT_TRUE(make({"throw:rank=1,step=5"}, 1).empty());
  EXPECT_FALSE(make({"throw:rank=1,step=5,once=false"}, 1).empty());
  EXPECT_FALSE(make({"throw:rank=1,step=6"}, 1).empty());
  EXPECT_FALSE(make({"throw:rank=1,step=5,phase=backward"}, 1).empty());
}

TEST_F(Injector, PoisonsOneStepAndSlowsEveryOne) {
  FaultInjector nan = make({"nan:rank=1,step=3"}, 1);
  for (const Count step : {2, 3, 4}) {
    nan.begin_step(step);
    EXPECT_EQ(nan.poisons(), step == 3);
  }
  FaultInjector slow = make({"slow:rank=1,step=2,seconds=0.02,phase=forward"}, 1);
  for (const Count step : {1, 2, 3}) {
    const double begin = steady_seconds();
    slow.begin_step(step);
    slow.enter(Phase::forward);
    slow.enter(Phase::forward);
    const double took = steady_seconds() - begin;
    EXPECT_GE(took, step == 1 ? 0.0 : 0.02);
  }
  EXPECT_NE(read_file(log_.path()).find("fault: now, at step 2: rank 1 will take 0.02 s longer"), std::string::npos);
}

TEST_F(Injector, PhasesReachItThroughTheTimers) {
  FaultInjector faults = make({"throw:rank=1,step=1,phase=communication"}, 1);
  StepTimers timers;
  timers.on_entry([&](Phase phase) { faults.enter(phase); });
  faults.begin_step(1);
  timers.begin_step();
  {
    const auto scope = timers.scope(Phase::backward);
    EXPECT_ERROR((void)timers.scope(Phase::communication), ExitCode::internal, "throw");
  }
  EXPECT_NO_THROW(timers.begin_step()) << "a phase stayed open";
}

TEST_F(Injector, WhatItTakesIsTimeOfThePhase) {
  FaultInjector faults = make({"slow:rank=1,step=1,seconds=0.03,phase=forward"}, 1);
  StepTimers timers;
  timers.on_entry([&](Phase phase) { faults.enter(phase); });
  faults.begin_step(1);
  timers.begin_step();
  (void)timers.scope(Phase::forward);
  EXPECT_GE(timers.seconds(Phase::forward), 0.03);
}

}  // namespace
}  // namespace cohort
