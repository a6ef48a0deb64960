// Tensor parallelism inside data and context parallelism: replicas of a model in parts, or parts of samples, learn as one rank
// does, whatever the strategy that adds up their gradients. What is wrong in a gradient shows in the losses of later steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "ops/cross_entropy.hpp"
#include "parallel/tensor/training.hpp"
#include "train/train_step.hpp"

namespace cohort::test {
namespace {

// One rank's micro-batches of a step. With two replicas: one of the two that one rank runs in turn. With context parallelism: of
// both the tokens that are this rank's.
class OwnBatches {
 public:
  OwnBatches(const Mesh& mesh, const ModelSection& section, Count step, const RingAttention* ring) {
    for (Count m = 0; m < kAccumulation; ++m) {
      batches_.emplace_back(section, step * kAccumulation + m);
      valid_targets_ += batches_.back().valid_targets();
    }
    for (Count m = 0; m < kAccumulation; ++m) {
      ModelInput input = batches_[static_cast<std::size_t>(m)].input();
      if (ring != nullptr) {
        const int rank = mesh.index(Axis::cp);
        tokens_.push_back(ring->split().part_of(rank, input.inputs));
        input.inputs = tokens_.back();
        tokens_.push_back(ring->split().part_of(rank, input.targets));
        input.targets = tokens_.back();
      }
      if (ring == nullptr && m != mesh.index(Axis::dp)) continue;
      own_targets_ += std::count_if(input.targets.begin(), input.targets.end(),
                                    [](std::int32_t target) { return target != ops::kIgnoredTarget; });
      inputs_.push_back(on_device_.put(input));
    }
  }
  std::span<const ModelInput> inputs() const { return inputs_; }
  Count own_targets() const { return own_targets_; }
  Count valid_targets() const { return valid_targets_; }  // of all ranks

 private:
  std::vector<Batch> batches_;
  std::deque<std::vector<std::int32_t>> tokens_;
  DeviceInputs on_device_;
  std::vector<ModelInput> inputs_;
  Count own_targets_ = 0, valid_targets_ = 0;
};

std::vector<double> losses_of(const Mesh& mesh, const ModelSection& section, const std::string& strategy, const Form& form) {
  ParallelSection parallel;
  parallel.data = strategy;
  parallel.bucket_mib = 4.0 / 1024;
  parallel.sequence = form.sequence;
  parallel.tensor_overlap = form.overlap;
  const Count micro_batches = mesh.size(Axis::cp) > 1 ? kAccumulation : kAccumulation / mesh.size(Axis::dp);
  const RunConfig config = step_config(section, mesh, kSamples, micro_batches, parallel, kRate);
  TrainStep train_step(config, mesh);
  StepTimers timers;
  std::vector<double> losses;
  for (Count step = 0; step < kSteps; ++step) {
    const OwnBatches own(mesh, section, step, train_step.ring());
    losses.push_back(train_step.run({step, own.inputs(), own.own_targets(), own.valid_targets()}, timers).loss);
  }
  return losses;
}

class Composition : public ::testing::Test {
 protected:
  void SetUp() override {
    if (ranks_.size() != 4) GTEST_SKIP() << "two replicas, or parts of samples, times two parts";
  }
  void expect_losses_of_one_rank(const MeshShape& shape, std::initializer_list<const char*> strategies) {
    const Mesh mesh(ranks_.host(), shape, test_device(), ranks_share_devices(4));
    for (const ModelSection& section : {gpt2_section(0.2), llama_section(1)}) {
      const std::vector<double> alone = train_alone(section).losses;
      for (const char* strategy : strategies) {
        for (const Form& form : kForms) {
          const std::vector<double> losses = losses_of(mesh, section, strategy, form);
          for (std::size_t step = 0; step < alone.size(); ++step)
            EXPECT_NEAR(losses[step] / alone[step], 1.0, kTolerance)
                << section.kind << ", " << strategy << form.name() << ", step " << step;
        }
      }
    }
  }

  Ranks ranks_;
};

TEST_F(Composition, ReplicasOfPartsLearnAsOneRank) {
  expect_losses_of_one_rank(MeshShape(2, 1, 1, 2), {"naive", "bucketed", "zero1", "zero2", "zero3"});
}

TEST_F(Composition, PartsOfSamplesOnPartsLearnAsOneRank) {
  expect_losses_of_one_rank(MeshShape(1, 1, 2, 2), {"bucketed", "zero3"});
}

}  // namespace
}  // namespace cohort::test
