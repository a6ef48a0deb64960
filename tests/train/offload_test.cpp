// Runs whose optimizer state, or weights, were offloaded: they train as others do, and their checkpoints are those of any run.
#include <fstream>

#include "support/device_model.hpp"
#include "support/expect_error.hpp"
#include "trainer_fixture.hpp"

namespace cohort::test {
namespace {

class Offload : public TrainerTest {
 protected:
  // A run with this name and layout, and with moments in files.
  RunConfig in_files(const std::string& name, const std::string& data, const Overrides& more = {}) const {
    Overrides overrides{"parallel.offload=optimizer", "parallel.offload_directory=" + scratch()};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return in_memory(name, data, overrides);
  }
  RunConfig in_memory(const std::string& name, const std::string& data, const Overrides& more = {}) const {
    Overrides overrides{"run.name=" + name, "parallel.data=" + data};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return config(overrides);
  }
  std::string scratch() const { return (folder_ / "scratch").string(); }
  void expect_no_files_left() const {
    world_->barrier();  // the files of all ranks
    EXPECT_TRUE(fs::is_empty(scratch()));
    world_->barrier();
  }
  // Losses of the same training with rounding elsewhere.
  void expect_close(const std::vector<double>& found, const std::vector<double>& wanted, double tolerance) const {
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], tolerance * wanted[i]) << i;
  }
};

constexpr const char* kStages[] = {"zero1", "zero2", "zero3"};

// The kernel is that of a CPU: on a CPU the bits are those of a run without offload. AdamW on a GPU rounds otherwise, in
// bf16 by a hundredth.
TEST_F(Offload, MomentsInFilesTrainAsThoseInMemory) {
  for (const char* stage : kStages) {
    for (const char* policy : {"fp32", "bf16"}) {
      SCOPED_TRACE(fmt::format("{}, {}", stage, policy));
      const std::string name = fmt::format("{}-{}", stage, policy), precision = fmt::format("precision.policy={}", policy);
      ASSERT_EQ(train(in_memory(name, stage, {precision})), ExitCode::success);
      ASSERT_EQ(train(in_files(name + "-files", stage, {precision})), ExitCode::success);
      const Remains plain = remains(name), offloaded = remains(name + "-files");
      if (test_device() == DeviceKind::cpu) {
        EXPECT_EQ(offloaded.tensors, plain.tensors);
        EXPECT_EQ(offloaded.metrics, plain.metrics);
      } else {
        expect_close(offloaded.series("loss"), plain.series("loss"), std::string(policy) == "fp32" ? kDrift : 1e-2);
      }
      expect_no_files_left();
    }
  }
}

TEST_F(Offload, FiveStepsAndFiveMoreAreTenBitForBit) {
  for (const char* stage : kStages) {
    SCOPED_TRACE(stage);
    const std::string name = stage;
    ASSERT_EQ(train(in_files(name, stage)), ExitCode::success);
    ASSERT_EQ(train(in_files(name + "-twice", stage, {"train.steps=5"})), ExitCode::success);
    ASSERT_EQ(train(in_files(name + "-twice", stage), ExistingRun::resume), ExitCode::success);
    EXPECT_EQ(remains(name + "-twice").tensors, remains(name).tensors);
    EXPECT_EQ(remains(name).tensors.count("/optim/v/embedding/weight"), 1u);
  }
}

// A checkpoint does not say where the state lay.
TEST_F(Offload, RunsGoOnWithOffloadAndWithout) {
  ASSERT_EQ(train(in_files("out", "zero3", {"train.steps=5"})), ExitCode::success);
  ASSERT_EQ(train(in_memory("out", "zero3"), ExistingRun::resume), ExitCode::success);
  ASSERT_EQ(train(in_memory("in", "zero3", {"train.steps=5"})), ExitCode::success);
  ASSERT_EQ(train(in_files("in", "zero3"), ExistingRun::resume), ExitCode::success);
  ASSERT_EQ(train(in_memory("plain", "zero3")), ExitCode::success);
  if (test_device() == DeviceKind::cpu) {
    EXPECT_EQ(remains("out").tensors, remains("plain").tensors);
    EXPECT_EQ(remains("in").tensors, remains("plain").tensors);
  }
  expect_close(remains("out").series("loss"), remains("plain").series("loss"), kDrift);
  expect_close(remains("in").series("loss"), remains("plain").series("loss"), kDrift);
}

TEST_F(Offload, AFolderThatCannotBeMadeEndsTheRunAtOnce) {
  if (root()) std::ofstream(scratch()) << "a file";
  world_->barrier();
  EXPECT_ERROR(train(in_files("run", "zero1")), ExitCode::io, scratch().c_str());
}

// Where the moments and the shards of the weights lie changes nothing that is computed.
TEST_F(Offload, OnAGpuEveryKindHasTheSameBits) {
  if (test_device() == DeviceKind::cpu) GTEST_SKIP() << "on a CPU all lies on the host";
  for (const char* policy : {"fp32", "bf16"}) {
    SCOPED_TRACE(policy);
    const std::string precision = fmt::format("precision.policy={}", policy), name = policy;
    const std::string optimizer = "parallel.offload=optimizer", parameters = "parallel.offload=parameters";
    ASSERT_EQ(train(in_memory(name, "zero3", {precision})), ExitCode::success);
    ASSERT_EQ(train(in_memory(name + "-optimizer", "zero3", {precision, optimizer})), ExitCode::success);
    ASSERT_EQ(train(in_memory(name + "-parameters", "zero3", {precision, parameters})), ExitCode::success);
    ASSERT_EQ(train(in_files(name + "-files", "zero3", {precision, parameters})), ExitCode::success);
    const Remains of_optimizer = remains(name + "-optimizer");
    for (const char* kind : {"-parameters", "-files"}) {
      EXPECT_EQ(remains(name + kind).tensors, of_optimizer.tensors) << kind;
      EXPECT_EQ(remains(name + kind).metrics, of_optimizer.metrics) << kind;
    }
    // As above.
    expect_close(of_optimizer.series("loss"), remains(name).series("loss"), name == "fp32" ? kDrift : 1e-2);
  }
}

}  // namespace
}  // namespace cohort::test
