// Checkpoints that earlier versions of the format wrote, kept as files: later versions must read them.
#include "checkpoint/collective.hpp"
#include "checkpoint/reader.hpp"
#include "checkpoint_fixture.hpp"

namespace cohort::test {
namespace {

const fs::path kFixtures = fs::path(COHORT_SOURCE_DIR) / "tests/checkpoint/fixtures";

TEST(Version1, IsStillRead) {
  const CheckpointReader reader(kFixtures / "version_1");
  EXPECT_EQ(reader.manifest().version, 1);
  EXPECT_EQ(reader.manifest().form, CheckpointForm::consolidated);
  EXPECT_EQ(reader.manifest().parameters(), 42);
  EXPECT_EQ(reader.state().step, 3);
  EXPECT_EQ(reader.state().samples_seen, 24);
  EXPECT_EQ(reader.state().seed, 7u);
  EXPECT_EQ(reader.state().model, "mlp inputs=2 layers=2 width=4 classes=2");
  EXPECT_EQ(reader.state().history, "");
  EXPECT_NE(reader.state().run_file.find("kind = \"two_moons\""), std::string::npos);
  reader.verify();
  // As h5dump shows it.
  const auto bias = reader.read(*reader.manifest().find("/model/head/bias"));
  ASSERT_EQ(bias.tensor.shape(), Shape({2}));
  EXPECT_NEAR(bias.tensor.f32()[0], 0.010385, 5e-7);
  EXPECT_NEAR(bias.tensor.f32()[1], -0.010385, 5e-7);
  EXPECT_NE(reader.manifest().find("/optim/v/layers/1/weight"), nullptr);
}

// Data and history were attributes, and the run file alone had a checksum.
TEST(Version2, IsStillReadInBothForms) {
  for (const CheckpointForm form : {CheckpointForm::consolidated, CheckpointForm::per_rank}) {
    const fs::path folder = kFixtures / "version_2" / name_of(form);
    const CheckpointReader reader(folder);
    EXPECT_EQ(reader.manifest().version, 2);
    EXPECT_EQ(reader.manifest().form, form);
    EXPECT_EQ(reader.manifest().files.size(), form == CheckpointForm::per_rank ? 3u : 1u);
    EXPECT_EQ(reader.state().step, 3);
    EXPECT_EQ(reader.state().data, "two_moons samples=64 inputs=16 seed=7");
    EXPECT_EQ(reader.state().history,
              "from step 2 on: optimizer.learning_rate: 0.01 in the checkpoint, 0.02 now\n"
              "from step 2 on: schedule.decay_steps: 2 in the checkpoint, 3 now\n");
    EXPECT_NE(reader.state().run_file.find("kind = \"two_moons\""), std::string::npos);
    reader.verify();
    // As h5dump shows it.
    const auto bias = reader.read(*reader.manifest().find("/model/head/bias"));
    ASSERT_EQ(bias.tensor.shape(), Shape({2}));
    EXPECT_NEAR(bias.tensor.f32()[0], 0.0208724, 5e-8);
    EXPECT_NEAR(bias.tensor.f32()[1], -0.0208724, 5e-8);
    // What the ranks of a job are told of it.
    const Manifest told = manifest_from_text(to_json_text(reader.manifest()), "told");
    EXPECT_EQ(told.texts, reader.manifest().texts);
    EXPECT_EQ(told.tensors().size(), reader.manifest().tensors().size());
  }
}

}  // namespace
}  // namespace cohort::test
