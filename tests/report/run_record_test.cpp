#include "report/run_record.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "report/run_folder.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

TEST(RunRecords, HaveFiguresByNameAndStep) {
  const RunFolder run;
  run.append("metrics.jsonl",
             "{\"step\":0,\"validation_loss\":7.5}\n"
             "{\"step\":1,\"loss\":6.5,\"seconds\":{\"step\":0.5},\"run\":{\"ranks\":4,\"layout\":\"dp "
             "4\",\"unit\":\"tokens\",\"entropy_floor\":0.25}}\n"
             "{\"step\":2,\"loss\":null,\"loss_text\":\"nan\",\"gradient_norm\":null,\"gradient_norm_text\":\"-inf\"}\n");
  run.append("run.toml", "[run]\n");
  const RunRecord record = read_run_record(run.path());
  EXPECT_EQ(record.name, "run");
  EXPECT_TRUE(record.notes.empty());
  EXPECT_EQ(record.find("loss")->steps, (std::vector<Count>{1, 2}));
  EXPECT_EQ(record.find("loss")->values[0], 6.5);
  EXPECT_TRUE(std::isnan(record.find("loss")->values[1])) << "a number that is none stays one";
  EXPECT_TRUE(std::isinf(record.find("gradient_norm")->values[0]));
  EXPECT_EQ(record.find("seconds.step")->values, std::vector<double>{0.5});
  EXPECT_EQ(record.find("validation_loss")->steps, std::vector<Count>{0});
  EXPECT_EQ(record.find("nothing"), nullptr);
  EXPECT_EQ(record.rank_count, 4);
  EXPECT_EQ(record.layout, "dp 4");
  EXPECT_EQ(record.entropy_floor, 0.25);
  EXPECT_EQ(record.last_step(), 2);
}

TEST(RunRecords, SayWhatIsWrongAndShowTheRest) {
  const RunFolder run;
  run.losses({5, 4, 3});
  run.append("metrics.jsonl", "rubbish\n");
  run.losses({3.5, 2}, 3);  // step 3 comes again
  run.append("metrics.jsonl", "{\"step\":5,\"lo");
  const RunRecord record = read_run_record(run.path());
  EXPECT_EQ(record.find("loss")->values, (std::vector<double>{5, 4, 3.5, 2}));
  ASSERT_EQ(record.notes.size(), 4u);
  EXPECT_NE(record.notes[0].find("cut off"), std::string::npos);
  EXPECT_NE(record.notes[1].find("1 line of metrics.jsonl cannot be read and is left out"), std::string::npos) << record.notes[1];
  EXPECT_NE(record.notes[2].find("1 step is recorded twice in metrics.jsonl"), std::string::npos) << record.notes[2];
  EXPECT_NE(record.notes[3].find("no run.toml"), std::string::npos);
}

TEST(RunRecords, NeedARecord) {
  const RunFolder run;
  EXPECT_ERROR(read_run_record(run.path()), ExitCode::io, "not a run folder", "metrics.jsonl");
  run.append("metrics.jsonl", "{\"step\":");
  EXPECT_ERROR(read_run_record(run.path()), ExitCode::io, "no step is recorded there yet");
}

TEST(RunRecords, RanksAreThoseOfTheLastPart) {
  const RunFolder run;
  run.losses({5, 4, 3});
  run.append("ranks.jsonl",
             "{\"step\":1,\"own_work\":[1,2],\"times\":[1,2]}\n"
             "{\"step\":2,\"own_work\":[1,2,4],\"times\":[0.5,1,2]}\n"
             "{\"step\":3,\"own_work\":[1,2,5],\"times\":[0.5,1,2.5]}\n");
  const RunRecord record = read_run_record(run.path());
  const auto columns = record.ranks.map.columns();
  ASSERT_EQ(columns.size(), 2);
  EXPECT_EQ(columns.front().first_step, 2);
  EXPECT_EQ(columns.back().values, (std::vector<float>{0.5f, 1, 2.5f}));
  EXPECT_EQ(record.ranks.reports, 2);
  EXPECT_EQ(record.ranks.slow.back().first, 2);
  EXPECT_EQ(record.ranks.slow.back().most, 2.5);
}

TEST(RunRecords, LayersKeepTheOrderOfTheModel) {
  const RunFolder run;
  run.losses({5, 4});
  run.append("layers.jsonl",
             "{\"step\":1,\"layers\":{\"embedding\":{\"gradients\":{\"norm\":2}},\"blocks.0\":{\"gradients\":{\"norm\":null,"
             "\"norm_text\":\"nan\"}},\"adapters\":{\"weights\":{\"norm\":1}}}}\n"
             "{\"step\":2,\"layers\":{\"embedding\":{\"gra");
  const RunRecord record = read_run_record(run.path());
  EXPECT_EQ(record.gradients.units, (std::vector<std::string>{"embedding", "blocks.0", "adapters"}));
  const auto columns = record.gradients.map.columns();
  ASSERT_EQ(columns.size(), 1);
  EXPECT_EQ(columns.front().values.front(), 2.0f);
  EXPECT_TRUE(std::isnan(columns.front().values[1]) && std::isnan(columns.front().values[2]));
  EXPECT_NE(record.notes.front().find("The last line of layers.jsonl is cut off"), std::string::npos) << record.notes.front();
}

// Of a step that two runs wrote, the later record counts whole: also in what it does not have.
TEST(RunRecords, TwoRunsInterleavedAreTheLater) {
  const RunFolder run;
  run.append("metrics.jsonl", "{\"step\":1,\"loss\":5}\n{\"step\":3,\"loss\":3,\"validation_loss\":3.5}\n");
  run.append("metrics.jsonl", "{\"step\":2,\"loss\":4}\n{\"step\":3,\"loss\":2}\n{\"step\":4,\"loss\":1}\n");
  const RunRecord record = read_run_record(run.path());
  EXPECT_EQ(record.find("loss")->steps, (std::vector<Count>{1, 2, 3, 4}));
  EXPECT_EQ(record.find("loss")->values, (std::vector<double>{5, 4, 2, 1}));
  EXPECT_EQ(record.find("validation_loss"), nullptr);
  EXPECT_NE(record.notes.front().find("1 step is recorded twice"), std::string::npos) << record.notes.front();
}

}  // namespace
}  // namespace cohort::test
