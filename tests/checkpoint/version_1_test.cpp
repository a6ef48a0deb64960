// A checkpoint that the first version of the format wrote, kept as a file: later versions must read it.
#include "checkpoint/collective.hpp"
#include "checkpoint/reader.hpp"
#include "checkpoint_fixture.hpp"

namespace cohort::test {
namespace {

const fs::path kFolder = fs::path(COHORT_SOURCE_DIR) / "tests/checkpoint/fixtures/version_1";

TEST(Version1, IsStillRead) {
  const CheckpointReader reader(kFolder);
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

}  // namespace
}  // namespace cohort::test
