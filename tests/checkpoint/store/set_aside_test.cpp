// What is never deleted: files of others, links, steps that are incomplete or that a run was taken back beyond.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "checkpoint/checkpoint_fixture.hpp"
#include "checkpoint/inspect/inventory.hpp"
#include "checkpoint/read/reader.hpp"
#include "checkpoint/store/folders.hpp"
#include "checkpoint/store/set_aside.hpp"

namespace cohort::test {
namespace {

class SetAside : public CheckpointTest {
 protected:
  void SetUp() override {
    CheckpointTest::SetUp();
    model_ = make_model();
    set_values(*model_, 1);
    for (const Count step : {10, 20, 30}) save_checkpoint(run_, *model_, make_state(step));
  }
  fs::path folder(Count step) const { return checkpoints_folder(run_) / step_name(step); }
  std::vector<Count> known_steps() const {
    std::vector<Count> steps;
    for (const StoredCheckpoint& checkpoint : list_checkpoints(run_)) steps.push_back(checkpoint.step);
    return steps;
  }

  std::unique_ptr<ParameterRegistry> model_;
};

TEST_F(SetAside, StepsBeyondAreRenamedAndDoNotCount) {
  fs::create_directories(folder(40));  // incomplete
  write_all(folder(40) / kModelFile, "on its way");
  EXPECT_EQ(incomplete_beyond(run_, 30).size(), 1u);
  EXPECT_EQ(incomplete_beyond(run_, 40).size(), 0u);
  EXPECT_EQ(set_aside_beyond(run_, 10).size(), 3u);
  EXPECT_EQ(known_steps(), std::vector<Count>{10});
  EXPECT_EQ(read_all(set_aside_folder(run_) / step_name(40) / kModelFile), "on its way");
  for (const Count step : {20, 30}) {
    EXPECT_EQ(read_training_state(set_aside_folder(run_) / step_name(step)).step, step);
    save_checkpoint(run_, *model_, make_state(step), {.retention = {.keep = 1}});
  }
  EXPECT_EQ(known_steps(), std::vector<Count>{30}) << "the retention deletes 10 and 20";
  set_aside_beyond(run_, 0);
  EXPECT_TRUE(is_complete(set_aside_folder(run_) / "step_00000030.2"));
  EXPECT_EQ(set_aside_beyond(run_, 0).size(), 0u);
  Count listed = 0;
  for (const CheckpointEntry& entry : inventory_of(run_)) listed += entry.kind == EntryKind::set_aside ? 1 : 0;
  EXPECT_EQ(listed, 4);
}

// Killed at any moment: each step is whole, under one name or the other.
TEST_F(SetAside, AKillLosesNothing) {
  for (int round = 0; round < 20; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (;;) {
        set_aside_beyond(run_, 10);
        for (const Count step : {20, 30}) fs::rename(set_aside_folder(run_) / step_name(step), folder(step));
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(1000 + 137 * round));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    for (const Count step : {20, 30}) {
      const fs::path aside = set_aside_folder(run_) / step_name(step);
      ASSERT_NE(is_complete(folder(step)), is_complete(aside)) << step << " in round " << round;
      EXPECT_EQ(read_training_state(is_complete(aside) ? aside : folder(step)).step, step);
      if (is_complete(aside)) fs::rename(aside, folder(step));
    }
  }
}

TEST_F(SetAside, AnotherStepIsChosenByItsNumber) {
  EXPECT_EQ(resolve_checkpoint(run_, 20), folder(20));
  EXPECT_EQ(resolve_checkpoint(folder(20), 20), folder(20));
  expect_mentions(error_of(ExitCode::usage, [&] { resolve_checkpoint(folder(20), 30); }), {"step 20", "30"});
  expect_mentions(error_of(ExitCode::checkpoint, [&] { resolve_checkpoint(run_, 25); }), {"25", "step_00000010, step_00000020"});
}

// A save of a step that is there takes its place only if it is Cohort's and complete.
TEST_F(SetAside, WhatIsInTheWayOfASaveIsKept) {
  fs::create_directories(folder(40));
  write_all(folder(40) / kModelFile, "on its way");
  save_checkpoint(run_, *model_, make_state(40));
  EXPECT_EQ(read_training_state(folder(40)).step, 40);
  EXPECT_EQ(read_all(set_aside_folder(run_) / step_name(40) / kModelFile), "on its way");
  write_all(folder(30) / "notes.txt", "mine");
  save_checkpoint(run_, *model_, make_state(30));
  EXPECT_FALSE(fs::exists(folder(30) / "notes.txt"));
  EXPECT_EQ(read_all(set_aside_folder(run_) / step_name(30) / "notes.txt"), "mine");
}

TEST_F(SetAside, TheRetentionPassesOverWhatHoldsFilesOfOthers) {
  write_all(folder(10) / "notes.txt", "mine");
  const Saved saved = [&] {
    const std::unique_ptr<Communicator> self = make_self_communicator("test");
    return save_parts(*self, run_, write_items_of(whole_shards(*model_, true), {}), make_state(40), {.retention = {.keep = 1}});
  }();
  expect_mentions(saved.trouble, {"step_00000010", "notes.txt"});
  EXPECT_EQ(known_steps(), (std::vector<Count>{10, 40}));
}

TEST_F(SetAside, OverwritingRemovesCohortsOwnAlone) {
  const fs::path elsewhere = run_ / "scratch";
  fs::rename(checkpoints_folder(run_), elsewhere);
  fs::create_directory_symlink(elsewhere, checkpoints_folder(run_));
  write_all(elsewhere / "notes.txt", "mine");
  fs::create_directories(elsewhere / "best");
  write_all(elsewhere / "best/model.h5", "mine");
  fs::create_directories(elsewhere / temporary_name(50));
  fs::create_directories(folder(40));
  expect_mentions(error_of(ExitCode::checkpoint, [&] { remove_checkpoints(run_); }),
                  {"step_00000040", "manifest.json", "copied"});
  fs::remove(folder(40));
  write_all(folder(20) / "notes.txt", "mine");
  expect_mentions(error_of(ExitCode::usage, [&] { remove_checkpoints(run_); }),
                  {"step_00000020/notes.txt", "not written by Cohort"});
  EXPECT_EQ(known_steps(), (std::vector<Count>{10, 20, 30})) << "a refusal removes nothing";
  fs::remove(folder(20) / "notes.txt");
  remove_checkpoints(run_);
  EXPECT_TRUE(fs::is_symlink(checkpoints_folder(run_)));
  std::vector<std::string> left = names_in(elsewhere);
  std::sort(left.begin(), left.end());
  EXPECT_EQ(left, (std::vector<std::string>{"best", "notes.txt"}));
  EXPECT_EQ(read_all(elsewhere / "best/model.h5"), "mine");
}

}  // namespace
}  // namespace cohort::test
