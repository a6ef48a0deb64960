// Planted faults. Each is a strategy, or a communicator under one, that is wrong in a way that people have really been wrong in;
// the comparison that accepts the strategies must reject every one of them.
#include <gtest/gtest.h>

#include "ops/pointwise.hpp"
#include "parallel/data/trajectory.hpp"
#include "parallel/zero/zero1.hpp"
#include "parallel/zero/zero2.hpp"
#include "parallel/zero/zero3.hpp"

namespace cohort::test {
namespace {

// Hands everything on to `inner` but lets `change` act on a sum of fp32, which is what gradients are.
class FaultyCommunicator : public Communicator {
 public:
  using Change = std::function<Request(Communicator& inner, void* data, Count elements)>;
  FaultyCommunicator(Communicator& inner, Change change)
      : Communicator(inner.name(), inner.rank(), inner.size()), inner_(inner), change_(std::move(change)) {}
  std::string_view backend() const override { return inner_.backend(); }

 protected:
  Request do_all_reduce(void* data, Count elements, DType dtype, ReduceOp op) override {
    if (dtype == DType::f32 && op == ReduceOp::sum) return change_(inner_, data, elements);
    return inner_.all_reduce_async(data, elements, dtype, op);
  }
  Request do_all_gather(const void* send, void* recv, Count block_elements, DType dtype) override {
    return inner_.all_gather_async(send, recv, block_elements, dtype);
  }
  Request do_reduce_scatter(const void* send, void* recv, Count block_elements, DType dtype, ReduceOp op) override {
    return inner_.reduce_scatter_async(send, recv, block_elements, dtype, op);
  }
  Request do_broadcast(void*, Count, DType, int) override { return unused(); }
  Request do_send(const void*, Count, DType, int, int) override { return unused(); }
  Request do_recv(void*, Count, DType, int, int) override { return unused(); }
  void do_barrier() override { inner_.barrier(); }
  std::unique_ptr<Communicator> do_split(int, int, std::string) override { return nullptr; }

 private:
  Request unused() { fail_operation("this operation", "data parallelism does not use it"); }

  Communicator& inner_;
  Change change_;
};

// Gradients stay each rank's own.
struct NoReduction : DataParallel {
  using DataParallel::DataParallel;
  std::string_view name() const override { return "no reduction"; }

 protected:
  void finish_gradients(StepTimers&) override {}
};

// Reduces after the first micro-batch instead of after the last.
struct FirstMicroBatchOnly : NoReduction {
  using NoReduction::NoReduction;
  void grad_ready(Parameter& parameter) override {
    if (micro_batch_ == 0) group_.all_reduce(parameter.gradient.raw(), parameter.elements(), DType::f32, ReduceOp::sum);
  }

 protected:
  void run_micro_batch(const StepContext& context, const ModelInput& input, float scale, StepTimers& timers) override {
    NoReduction::run_micro_batch(context, input, scale, timers);
    ++micro_batch_;
  }
  void finish_gradients(StepTimers&) override { micro_batch_ = 0; }

 private:
  int micro_batch_ = 0;
};

// Reduces after every micro-batch, so that the first one's sum is summed again.
struct EveryMicroBatch : NoReduction {
  using NoReduction::NoReduction;
  void grad_ready(Parameter& parameter) override {
    group_.all_reduce(parameter.gradient.raw(), parameter.elements(), DType::f32, ReduceOp::sum);
  }
};

// Steps every rank by its own gradient, times the number of ranks, and averages the weights. For plain SGD that is the same as
// adding up the gradients.
struct AveragedWeights : NoReduction {
  using NoReduction::NoReduction;
  void weights_changed() override {
    const Tensor& values = model_.parameters().flat_values();
    group_.all_reduce(values.raw(), values.elements(), DType::f32, ReduceOp::avg);
  }

 protected:
  void finish_gradients(StepTimers&) override {
    const Tensor& gradients = model_.parameters().flat_gradients();
    ops::scale({.device = gradients.device()}, gradients, static_cast<float>(group_.size()));
  }
};

// Divides by the number of ranks where the loss has already been divided by the number of targets.
Request average(Communicator& inner, void* data, Count elements) {
  return inner.all_reduce_async(data, elements, DType::f32, ReduceOp::avg);
}

// Faults in the life of shards.

// The optimizer's new weights stay with their owners.
struct StaleWeights : Zero1 {
  using Zero1::Zero1;
  void weights_changed() override {}
};

// Each rank's block holds its own gradients.
struct UnreducedShards : Zero1 {
  using Zero1::Zero1;

 protected:
  void group_ready(ShardGroup&) override {}
};

// The sum of a micro-batch takes the place of those before.
struct LastMicroBatchOnly : Zero2 {
  using Zero2::Zero2;

 protected:
  void reduced(ShardGroup& group) override {
    group.own.gradients.zero();
    Zero2::reduced(group);
  }
};

// Weights that were gathered once are taken for the present ones.
struct WeightsNeverGivenUp : Zero3 {
  using Zero3::Zero3;
  void post_forward(const Unit&) override {}
  void pre_backward(const Unit&) override {}
  void end_pass() override { ShardedGradients::end_pass(); }  // NOLINT(bugprone-parent-virtual-call): leaves Zero3's out
};

// Averages what should be summed on its way to the shards.
class AveragingScatter : public FaultyCommunicator {
 public:
  explicit AveragingScatter(Communicator& inner)
      : FaultyCommunicator(inner, [](Communicator& to, void* data,
                                     Count elements) { return to.all_reduce_async(data, elements, DType::f32, ReduceOp::sum); }),
        sum_(inner) {}

 protected:
  Request do_reduce_scatter(const void* send, void* recv, Count block_elements, DType dtype, ReduceOp) override {
    return sum_.reduce_scatter_async(send, recv, block_elements, dtype, ReduceOp::avg);
  }

 private:
  Communicator& sum_;
};

// Leaves the sum of squares, which is fp64, as it is on each rank, or counts it twice.
class FaultyNorm : public FaultyCommunicator {
 public:
  FaultyNorm(Communicator& inner, int times)
      : FaultyCommunicator(inner, [](Communicator& to, void* data,
                                     Count elements) { return to.all_reduce_async(data, elements, DType::f32, ReduceOp::sum); }),
        to_(inner),
        times_(times) {}

 protected:
  Request do_all_reduce(void* data, Count elements, DType dtype, ReduceOp op) override {
    if (dtype != DType::f64) return FaultyCommunicator::do_all_reduce(data, elements, dtype, op);
    for (int i = 0; i < times_; ++i) to_.all_reduce(data, elements, dtype, op);
    return {};
  }

 private:
  Communicator& to_;
  int times_;
};

template <int kTimes>
struct NormSummedTimes : Zero1 {
  NormSummedTimes(Model& model, Communicator& group, const ShardOptions& options)
      : Zero1(model, group, options), faulty_(*Zero1::shard_group(), kTimes) {}
  Communicator* shard_group() override { return &faulty_; }
  FaultyNorm faulty_;
};

const Problem kGpt2{"gpt2", Ignored::uneven, 12};
const Problem kGpt2Twice{"gpt2", Ignored::uneven, 24};  // for two micro-batches

class Mutants : public ::testing::Test {
 protected:
  void SetUp() override {
    if (ranks_.size() == 1) GTEST_SKIP() << "with one rank there is nothing to reduce, and nothing to get wrong";
  }

  Distance distance_of(const MakeStrategy& make, Communicator& group, const Problem& problem, const TrainOptions& options = {}) {
    const MakeStrategy over_group = [&](Model& model, Communicator&) { return make(model, group); };
    return distance(ranks_.host(), train(problem, ranks_.mesh(), over_group, options), train_alone(problem, options.update));
  }
  template <class Strategy>
  Distance distance_of(const Problem& problem, const TrainOptions& options = {}) {
    const MakeStrategy make = [](Model& model, Communicator& group) { return std::make_unique<Strategy>(model, group); };
    return distance_of(make, ranks_.tensors(), problem, options);
  }
  // The same of a strategy that keeps the parameters itself, for two micro-batches.
  template <class Strategy>
  Distance distance_of_shards(Communicator& group) {
    const MakeStrategy make = [](Model& model, Communicator& to) {
      return std::make_unique<Strategy>(model, to, ShardOptions{.seed = kSeed});
    };
    return distance_of(make, group, kGpt2Twice, {.accumulation = 2, .sharded = true});
  }
  // Every strategy that communicates, over a faulty communicator.
  void expect_rejected(const FaultyCommunicator::Change& change, const Problem& problem) {
    for (const char* name : {"naive", "hooks", "bucketed"}) {
      FaultyCommunicator faulty(ranks_.tensors(), change);
      // 1e-6 MiB: a bucket for each parameter.
      const Distance found = distance_of(strategy_named(name, model_section(problem.model), 1e-6), faulty, problem);
      EXPECT_FALSE(found.accepted()) << name << ": " << found.str();
    }
  }

  Ranks ranks_;
};

TEST_F(Mutants, AnHonestWrapperIsAccepted) {
  FaultyCommunicator honest(ranks_.tensors(), [](Communicator& inner, void* data, Count elements) {
    return inner.all_reduce_async(data, elements, DType::f32, ReduceOp::sum);
  });
  const Distance found = distance_of(strategy_named("bucketed", model_section("gpt2"), 1e-6), honest, kGpt2);
  EXPECT_TRUE(found.accepted()) << found.str();
}

TEST_F(Mutants, NoReductionIsRejected) {
  EXPECT_FALSE(distance_of<NoReduction>(kGpt2).accepted());
  EXPECT_FALSE(distance_of<NoReduction>({"mlp", Ignored::none, 12}).accepted());
}

TEST_F(Mutants, AnAverageInsteadOfTheSumIsRejected) { expect_rejected(average, kGpt2); }

TEST_F(Mutants, ReductionOfTheFirstMicroBatchOnlyIsRejected) {
  EXPECT_TRUE(distance_of<FirstMicroBatchOnly>(kGpt2).accepted()) << "with one micro-batch there is no fault";
  EXPECT_FALSE(distance_of<FirstMicroBatchOnly>(kGpt2Twice, {.accumulation = 2}).accepted());
}

TEST_F(Mutants, ReductionAfterEachMicroBatchIsRejected) {
  EXPECT_TRUE(distance_of<EveryMicroBatch>(kGpt2).accepted()) << "with one micro-batch there is no fault";
  EXPECT_FALSE(distance_of<EveryMicroBatch>(kGpt2Twice, {.accumulation = 2}).accepted());
}

TEST_F(Mutants, ASkippedTiedWeightIsRejected) {
  // The tied embedding is the largest parameter and, with a bucket for each, the only message of its size.
  const Count tied = make_model(model_section("gpt2"), 1)->parameters().find("embedding.weight")->elements();
  Count skipped = 0;
  const auto skip_tied = [&](Communicator& inner, void* data, Count elements) {
    if (elements == tied) return ++skipped, Request();
    return inner.all_reduce_async(data, elements, DType::f32, ReduceOp::sum);
  };
  expect_rejected(skip_tied, kGpt2);
  EXPECT_EQ(skipped, 3 * kSteps) << "once a step for each of the strategies";
}

TEST_F(Mutants, ASmallParameterThatIsSkippedIsRejected) {
  const Count gain = model_section("llama").width;
  expect_rejected(
      [&](Communicator& inner, void* data, Count elements) {
        if (elements == gain) return Request();
        return inner.all_reduce_async(data, elements, DType::f32, ReduceOp::sum);
      },
      {"llama", Ignored::uneven, 12});
}

TEST_F(Mutants, OneBucketReducedTwiceIsRejected) {
  int calls = 0;
  expect_rejected(
      [&](Communicator& inner, void* data, Count elements) {
        if (calls++ % 5 == 0) inner.all_reduce(data, elements, DType::f32, ReduceOp::sum);
        return inner.all_reduce_async(data, elements, DType::f32, ReduceOp::sum);
      },
      kGpt2);
}

TEST_F(Mutants, FaultyShardsAreRejected) {
  Communicator& group = ranks_.tensors();
  for (const Distance& honest : {distance_of_shards<Zero1>(group), distance_of_shards<Zero2>(group),
                                 distance_of_shards<Zero3>(group), distance_of_shards<NormSummedTimes<1>>(group)})
    EXPECT_TRUE(honest.accepted()) << honest.str();
  EXPECT_FALSE(distance_of_shards<StaleWeights>(group).accepted());
  EXPECT_FALSE(distance_of_shards<UnreducedShards>(group).accepted());
  EXPECT_FALSE(distance_of_shards<LastMicroBatchOnly>(group).accepted());
  EXPECT_FALSE(distance_of_shards<WeightsNeverGivenUp>(group).accepted());
  EXPECT_FALSE(distance_of_shards<NormSummedTimes<0>>(group).accepted()) << "each rank clips by the norm of its shard";
  EXPECT_FALSE(distance_of_shards<NormSummedTimes<2>>(group).accepted()) << "the norm is counted twice";
  AveragingScatter averaging(group);
  EXPECT_FALSE(distance_of_shards<Zero1>(averaging).accepted());
  EXPECT_FALSE(distance_of_shards<Zero3>(averaging).accepted());
}

TEST_F(Mutants, AveragedWeightsHideUnderSgdAndAreRejectedUnderAdamW) {
  const Distance sgd = distance_of<AveragedWeights>(kGpt2, {.update = Update::sgd});
  EXPECT_LE(sgd.weights, Distance::kTolerance) << "this is why SGD is no test of a strategy";
  const Distance adamw = distance_of<AveragedWeights>(kGpt2);
  EXPECT_GT(adamw.weights, 100 * Distance::kTolerance) << "the weights alone must show it";
  EXPECT_FALSE(adamw.accepted());
}

}  // namespace
}  // namespace cohort::test
