// What each strategy sends: how many messages, how many bytes, in which form and when.
#include <gtest/gtest.h>

#include "comm/mpi_communicator.hpp"
#include "comm/trace.hpp"
#include "parallel/data/bucketed.hpp"
#include "parallel/trajectory.hpp"

namespace cohort::test {
namespace {

class Messages : public ::testing::TestWithParam<const char*> {
 protected:
  // Forward, backward and reduction of one step of `accumulation` micro-batches; nothing else.
  void run_step(DataParallel& strategy, Count accumulation) {
    const GlobalBatch batch({GetParam(), Ignored::uneven, 12 * accumulation}, 0);
    Arena activations("test.activations");
    StepTimers timers;
    const Tensor loss = Tensor::zeros("test.loss", {1}, DType::f64);
    const StepContext context{.activations = &activations, .loss_sum = loss, .training = true, .seed = 1};
    strategy.accumulate_gradients(context, batch.part(group_->rank(), group_->size(), accumulation), 1.0f, timers);
  }
  // The step's only messages must be `calls` all-reduces of all gradients together, of `element` bytes each.
  void expect_messages(DataParallel& strategy, std::size_t calls, Bytes element = 4) {
    for (const Count accumulation : {1, 2}) {
      CommTrace trace;
      trace.attach(*group_);
      run_step(strategy, accumulation);
      const CommTrace::Totals totals = trace.totals("dp", "all_reduce");
      EXPECT_EQ(totals.calls, static_cast<Count>(calls)) << strategy.name() << ", accumulation " << accumulation;
      EXPECT_EQ(totals.bytes, element * model_->parameters().elements()) << strategy.name() << ", accumulation " << accumulation;
      EXPECT_EQ(trace.sum().calls, totals.calls) << trace.str();
    }
  }
  std::size_t parameters() const { return model_->parameters().all().size(); }

  std::unique_ptr<Communicator> world_ = make_world_communicator();
  std::unique_ptr<Communicator> group_ = world_->split(0, world_->rank(), "dp");
  std::unique_ptr<Model> model_ = make_model(model_section(GetParam()), 1);
};

TEST_P(Messages, NaiveAndHooksSendOneForEachParameter) {
  for (const char* name : {"naive", "hooks"})
    expect_messages(*strategy_named(name, model_section(GetParam()))(*model_, *group_), parameters());
}

TEST_P(Messages, BucketedSendsOneForEachBucket) {
  Bucketed tiny(*model_, *group_, 1);
  EXPECT_EQ(tiny.bucket_elements().size(), parameters());
  expect_messages(tiny, parameters());
  Bucketed medium(*model_, *group_, 2 * kKiB);
  EXPECT_LT(medium.bucket_elements().size(), parameters());
  expect_messages(medium, medium.bucket_elements().size());
  Bucketed huge(*model_, *group_, kGiB);
  EXPECT_EQ(huge.bucket_elements(), std::vector<Count>{model_->parameters().elements()});
  expect_messages(huge, 1);
}

// In 16 bits the buckets are the same, and half as long on the wire. One rank's go nowhere and stay as they are.
TEST_P(Messages, ReductionIn16BitsHalvesTheTraffic) {
  for (const DType type : {DType::bf16, DType::f16}) {
    Bucketed halved(*model_, *group_, 2 * kKiB, type), whole(*model_, *group_, 2 * kKiB);
    EXPECT_EQ(halved.bucket_elements(), whole.bucket_elements());
    expect_messages(halved, halved.bucket_elements().size(), group_->size() > 1 ? 2 : 4);
  }
}

// A bucket is closed as soon as it holds its size: all but the last hold at least that, and not more than one parameter beyond.
TEST_P(Messages, BucketsHaveTheSizeThatWasAskedFor) {
  Count largest = 0;
  for (const auto& parameter : model_->parameters().all()) largest = std::max(largest, parameter->elements());
  for (const Bytes size : {Bytes{1}, Bytes{100}, kKiB, 4 * kKiB}) {
    const std::vector<Count> elements = Bucketed(*model_, *group_, size).bucket_elements();
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (i + 1 < elements.size()) {
        EXPECT_GE(4 * elements[i], size);
      }
      EXPECT_LT(4 * (elements[i] - largest), size);
    }
  }
}

// What the course is about: naive sends after backward, hooks within it but waits, bucketed within it and does not wait.
TEST_P(Messages, BucketsStartWhileBackwardGoesOn) {
  struct Listening : Bucketed {
    using Bucketed::Bucketed;
    void grad_ready(Parameter& parameter) override {
      story += 'g';
      Bucketed::grad_ready(parameter);
    }
    std::string story;  // g: a gradient is ready, r: an all-reduce starts
  };
  Listening bucketed(*model_, *group_, 1);
  bool all_asynchronous = true;
  group_->observe([&](const CommEvent& event) {
    bucketed.story += 'r';
    all_asynchronous = all_asynchronous && event.asynchronous;
  });
  run_step(bucketed, 1);
  group_->observe({});
  EXPECT_LT(bucketed.story.find('r'), bucketed.story.rfind('g')) << bucketed.story;
  EXPECT_EQ(bucketed.story.substr(0, 2), "gr") << "the last parameter's bucket starts at once: " << bucketed.story;
  EXPECT_TRUE(all_asynchronous);
}

INSTANTIATE_TEST_SUITE_P(All, Messages, ::testing::Values("gpt2", "llama", "mlp"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace cohort::test
