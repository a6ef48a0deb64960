#include "report/run_tail.hpp"

#include <gtest/gtest.h>

#include "report/run_folder.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

TEST(RunTails, TakeWhatHasComeSinceTheLastLook) {
  const RunFolder run;
  run.losses({5, 4});
  RunTail tail(run.path(), 8);
  EXPECT_TRUE(tail.read_new());
  EXPECT_EQ(tail.latest().step, 2);
  EXPECT_EQ(tail.latest().loss, 4.0);
  EXPECT_FALSE(tail.read_new()) << "nothing came";
  run.append("metrics.jsonl",
             "{\"step\":3,\"loss\":3.5,\"validation_loss\":3.25,\"own_work\":{\"median\":1,\"max\":1.5},\"slowest_rank\":2");
  EXPECT_FALSE(tail.read_new()) << "the line is not whole";
  run.append("metrics.jsonl", "}\n");
  EXPECT_TRUE(tail.read_new());
  EXPECT_EQ(tail.latest().step, 3);
  EXPECT_EQ(tail.latest().validated_at, 3);
  EXPECT_EQ(tail.latest().slowest_rank, 2);
  EXPECT_EQ(tail.latest().slowest_by, 1.5);
  EXPECT_EQ(tail.curve(), (std::vector<double>{5, 4, 3.5}));
}

TEST(RunTails, BeginAnewWithAFileThatHasBecomeShorter) {
  const RunFolder run;
  run.losses({5, 4, 3, 2});
  RunTail tail(run.path(), 8);
  tail.read_new();
  std::filesystem::remove(run.path() / "metrics.jsonl");
  run.losses({5, 4.5});
  EXPECT_TRUE(tail.read_new());
  EXPECT_EQ(tail.latest().step, 2);
  EXPECT_EQ(tail.curve(), (std::vector<double>{5, 4.5}));
}

TEST(RunTails, ForgetStepsThatWereTakenBack) {
  const RunFolder run;
  run.losses({5, 4, 3, 2});
  RunTail tail(run.path(), 8);
  tail.read_new();
  run.losses({4.5, 3.5}, 2);  // resumed at step 1, and its file has grown since the last look
  EXPECT_TRUE(tail.read_new());
  EXPECT_EQ(tail.latest().step, 3);
  EXPECT_EQ(tail.curve(), (std::vector<double>{4.5, 3.5}));
}

TEST(RunTails, PassOverWhatIsNoNumber) {
  const RunFolder run;
  run.append("metrics.jsonl", "{\"step\":1,\"loss\":null,\"own_work\":{},\"slowest_rank\":null,\"seconds\":3}\n[1]\nrubbish\n");
  RunTail tail(run.path(), 8);
  EXPECT_TRUE(tail.read_new());
  EXPECT_EQ(tail.latest().step, 1);
  EXPECT_EQ(tail.latest().slowest_rank, -1);
}

TEST(RunTails, NeedARun) {
  const RunFolder run;
  EXPECT_ERROR(RunTail(run.path(), 8), ExitCode::io, "not a run folder");
}

}  // namespace
}  // namespace cohort::test
