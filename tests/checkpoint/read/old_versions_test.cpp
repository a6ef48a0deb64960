// Checkpoints that earlier versions of the format wrote, kept as files: later versions must read them.
#include "checkpoint/checkpoint_fixture.hpp"
#include "checkpoint/load/collective.hpp"
#include "checkpoint/read/reader.hpp"

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

// A part was a range of one dim at most. Written by two ranks of tensor parallelism and two of ZeRO: ranges of either dim, and
// runs of such ranges.
TEST(Version3, IsStillReadInBothForms) {
  const CheckpointReader whole(kFixtures / "version_3/consolidated");
  const CheckpointReader parts(kFixtures / "version_3/per_rank");
  EXPECT_EQ(parts.manifest().files.size(), 5u);
  for (const CheckpointReader* reader : {&whole, &parts}) {
    EXPECT_EQ(reader->manifest().version, 3);
    EXPECT_EQ(reader->state().step, 2);
    EXPECT_EQ(reader->state().seed, 7u);
    EXPECT_EQ(reader->state().validation_loss, "1.4198848914646758");
    EXPECT_NE(reader->state().run_file.find("kind = \"llama\""), std::string::npos);
    reader->verify();
    ASSERT_EQ(reader->manifest().tensors().size(), 11u);
    // As h5dump shows it.
    const auto query = reader->read(*reader->manifest().find("/model/blocks/0/attention/query/weight"));
    ASSERT_EQ(query.tensor.shape(), Shape({8, 8}));
    EXPECT_NEAR(query.tensor.f32()[0], 0.00759109, 5e-9);
    EXPECT_NEAR(query.tensor.f32()[7 * 8 + 4], -0.0371939, 5e-8);
  }
  for (const ManifestTensor& tensor : whole.manifest().tensors())
    EXPECT_EQ(whole.read(tensor).memory, parts.read(*parts.manifest().find(tensor.name)).memory) << tensor.name;
  const auto part_of = [&](const char* tensor, std::size_t i) { return parts.manifest().find(tensor)->parts.at(i).part; };
  EXPECT_EQ(part_of("/model/blocks/0/attention/output/weight", 1), TensorPart({8, 8}, Box{{0, 4}, {8, 4}}));
  EXPECT_EQ(part_of("/model/blocks/0/feed_forward/up/weight", 3), TensorPart({32, 8}, Box{{16, 0}, {16, 8}}, 48, 80));
}

}  // namespace
}  // namespace cohort::test
