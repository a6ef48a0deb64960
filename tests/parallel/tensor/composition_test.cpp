// Tensor parallelism inside data and context parallelism: replicas of a model in parts, or parts of samples, learn as one rank
// does, whatever the strategy that adds up their gradients. What is wrong in a gradient shows in the losses of later steps.
#include <gtest/gtest.h>

#include <deque>
#include <optional>

#include "optim/clip.hpp"
#include "optim/resident_optimizer.hpp"
#include "parallel/context/ring_attention.hpp"
#include "parallel/data/data_parallel.hpp"
#include "parallel/tensor/training.hpp"

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
      if (ring != nullptr || m == mesh.index(Axis::dp)) inputs_.push_back(on_device_.put(input));
    }
  }
  std::span<const ModelInput> inputs() const { return inputs_; }
  Count valid_targets() const { return valid_targets_; }

 private:
  std::vector<Batch> batches_;
  std::deque<std::vector<std::int32_t>> tokens_;
  DeviceInputs on_device_;
  std::vector<ModelInput> inputs_;
  Count valid_targets_ = 0;
};

std::vector<double> losses_of(const Mesh& mesh, const ModelSection& section, const std::string& strategy, bool sequence) {
  TensorParallelGroup parallel(mesh.axis(Axis::tp), sequence);
  std::optional<RingAttention> ring;
  if (mesh.size(Axis::cp) > 1) ring.emplace(mesh.axis(Axis::cp), section.context);
  ParallelSection options;
  options.data = strategy;
  options.bucket_mib = 4.0 / 1024;
  const auto model = is_sharded(strategy) ? declare_model(section, test_placement(), parallel)
                                          : make_model(section, kSeed, test_placement(), parallel);
  const auto data_parallel = make_data_parallel(options, section, kSeed, *model, mesh.gradient());
  const ResidentOptimizer optimizer(data_parallel->owned(), optimizer_section());
  Arena activations("test.activations", test_device());
  const StepScalars scalars(test_device());
  StepTimers timers;
  std::vector<double> losses;
  for (Count step = 0; step < kSteps; ++step) {
    const OwnBatches own(mesh, section, step, ring ? &*ring : nullptr);
    const double inverse = 1.0 / static_cast<double>(own.valid_targets());
    scalars.begin();
    const StepContext context{.exec = {.device = test_device()},
                              .activations = &activations,
                              .loss_sum = scalars.own_loss(),
                              .training = true,
                              .seed = kSeed,
                              .step = static_cast<std::uint32_t>(step),
                              .sequence = ring ? &*ring : nullptr};
    data_parallel->accumulate_gradients(context, own.inputs(), static_cast<float>(inverse), timers);
    mesh.gradient().all_reduce(scalars.own_loss().raw(), 1, DType::f64, ReduceOp::sum);
    losses.push_back(*scalars.own_loss().to_host().data<double>() * inverse);
    decide_update(context.exec, scalars, 1.0, 0.0);
    optimizer.step(context.exec, kRate, scalars.decisions(), step);
    data_parallel->weights_changed();
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
        for (const bool sequence : {false, true}) {
          const std::vector<double> losses = losses_of(mesh, section, strategy, sequence);
          for (std::size_t step = 0; step < alone.size(); ++step)
            EXPECT_NEAR(losses[step] / alone[step], 1.0, kTolerance)
                << section.kind << ", " << strategy << ", sequence " << sequence << ", step " << step;
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
