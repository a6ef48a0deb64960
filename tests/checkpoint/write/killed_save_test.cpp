// Saves that end badly: the process is killed at any moment, the disk is full, the folder cannot be written. What counted before
// still counts, the newest checkpoint is always whole, and the next save clears up.
#include <sys/resource.h>
#include <sys/wait.h>
#include <csignal>

#include <chrono>
#include <thread>

#include "checkpoint/checkpoint_fixture.hpp"

namespace cohort::test {
namespace {

using KilledSave = CheckpointTest;
using Clock = std::chrono::steady_clock;

constexpr Count kScale = 10000;  // 1.1 MB of embedding and twice that of state: a save takes long enough to be hit in the middle

/// The checkpoint holds what set_values(step) gave; returns its step.
Count check_whole(const fs::path& folder) {
  const auto loaded = make_model(kScale);
  const TrainingState state = load_checkpoint(folder, *loaded, kModel, kSlots);
  const auto expected = make_model(kScale);
  set_values(*expected, static_cast<std::uint64_t>(state.step));
  EXPECT_TRUE(same_bits(*loaded, *expected)) << "step " << state.step;
  return state.step;
}

// Forty children save step after step and are killed after delays spread over the length of a few saves. Every third round saves
// the step that exists already, to hit the replacement too.
TEST_F(KilledSave, NewestCheckpointIsAlwaysWhole) {
  const auto model = make_model(kScale);
  set_values(*model, 1);
  const auto begin = Clock::now();
  save_checkpoint(run_, *model, make_state(1));
  const auto one_save = Clock::now() - begin;
  Count newest = 1;
  int hit_in_the_middle = 0;
  constexpr int kRounds = 40;
  for (int round = 0; round < kRounds; ++round) {
    const Count first = round % 3 == 0 ? newest : newest + 1;
    set_values(*model, static_cast<std::uint64_t>(first));
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        for (;;) save_checkpoint(run_, *model, make_state(first), {.retention = {.keep = 3}});
      } catch (...) {
        ::_exit(1);
      }
    }
    std::this_thread::sleep_for(one_save * (round + 1) / (kRounds / 3));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child failed to save";
    if (fs::exists(checkpoints_folder(run_) / temporary_name(first))) ++hit_in_the_middle;
    const auto latest = find_latest(run_);
    ASSERT_TRUE(latest) << "round " << round;
    const Count step = check_whole(*latest);
    ASSERT_GE(step, newest) << "round " << round << ": a complete checkpoint was lost";
    newest = step;
  }
  EXPECT_GT(hit_in_the_middle, 0) << "no child was killed during a save: this test tested nothing";
  set_values(*model, static_cast<std::uint64_t>(newest + 1));
  save_checkpoint(run_, *model, make_state(newest + 1), {.retention = {.keep = 2}});
  EXPECT_EQ(steps().size(), entries()) << "the next save removes what the killed ones left";
}

// The two moments of a replacement at which a kill leaves the former checkpoint under its other name.
TEST_F(KilledSave, ReplacedCheckpointCountsUntilTheNewOneDoes) {
  const auto model = make_model(kScale);
  set_values(*model, 7);
  const fs::path folder = save_checkpoint(run_, *model, make_state(7));
  const fs::path replaced = checkpoints_folder(run_) / replaced_name(7);
  fs::rename(folder, replaced);
  EXPECT_EQ(find_latest(run_), replaced);
  EXPECT_EQ(check_whole(replaced), 7);
  tidy_checkpoints(run_);
  EXPECT_EQ(find_latest(run_), folder);
  EXPECT_EQ(check_whole(folder), 7);
  fs::copy(folder, replaced, fs::copy_options::recursive);
  EXPECT_EQ(list_checkpoints(run_).size(), 1u);
  EXPECT_EQ(find_latest(run_), folder);
  tidy_checkpoints(run_);
  EXPECT_EQ(entries(), 1u);
}

TEST_F(KilledSave, TemporaryFolderNeverCounts) {
  const auto model = make_model();
  const fs::path folder = save_checkpoint(run_, *model, make_state(5));
  fs::rename(folder, checkpoints_folder(run_) / temporary_name(5));  // even a complete one
  EXPECT_FALSE(find_latest(run_));
  save_checkpoint(run_, *model, make_state(6));
  EXPECT_EQ(steps(), (std::vector<Count>{6}));
  EXPECT_EQ(entries(), 1u);
}

// A limit on the size of files acts like a full disk: write() fails in the middle. In a child, since the limit cannot be taken
// back.
TEST_F(KilledSave, FullDiskIsAnErrorAndLeavesTheFormerCheckpoint) {
  const auto model = make_model(kScale);
  set_values(*model, 1);
  save_checkpoint(run_, *model, make_state(1));
  set_values(*model, 2);
  for (const rlim_t limit : {rlim_t{0}, rlim_t{1000}, rlim_t{1000000}}) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      std::signal(SIGXFSZ, SIG_IGN);
      const rlimit bytes{limit, limit};
      ::setrlimit(RLIMIT_FSIZE, &bytes);
      try {
        save_checkpoint(run_, *model, make_state(2));
      } catch (const Error& error) {
        ::_exit(error.code() == ExitCode::io ? 42 : 1);
      } catch (...) {
        ::_exit(2);
      }
      ::_exit(3);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 42) << "limit " << limit << ", status " << status;
    ASSERT_EQ(find_latest(run_), run_ / "checkpoints" / "step_00000001");
    EXPECT_EQ(entries(), 1u) << "the space of the failed save is given back";
  }
  EXPECT_EQ(check_whole(*find_latest(run_)), 1);
}

TEST_F(KilledSave, FolderThatCannotBeWritten) {
  const auto model = make_model();
  write_all(run_ / "file", "a file where a folder is needed");
  expect_mentions(error_of(ExitCode::io, [&] { save_checkpoint(run_ / "file", *model, make_state(1)); }), {"file"});
  fs::create_directories(checkpoints_folder(run_));
  write_all(checkpoints_folder(run_) / step_name(1), "a file where the checkpoint goes");
  const fs::path folder = save_checkpoint(run_, *model, make_state(1));
  EXPECT_TRUE(fs::is_directory(folder)) << "what has the name of a checkpoint and is none makes way";
  EXPECT_EQ(read_all(checkpoints_folder(run_) / kSetAside / step_name(1)), "a file where the checkpoint goes");
}

}  // namespace
}  // namespace cohort::test
