// What each strategy sends: how many messages, how many bytes, in which form and when.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "comm/trace.hpp"
#include "parallel/data/bucketed.hpp"
#include "parallel/data/trajectory.hpp"
#include "support/device_model.hpp"

namespace cohort::test {
namespace {

class Messages : public ::testing::TestWithParam<const char*> {
 protected:
  // Forward, backward and reduction of one step of `accumulation` micro-batches; nothing else.
  void run_step(DataParallel& strategy, Count accumulation) {
    const GlobalBatch batch({GetParam(), Ignored::uneven, 12 * accumulation}, 0);
    Arena activations("test.activations", test_device());
    StepTimers timers;
    const Tensor loss = Tensor::zeros("test.loss", {1}, DType::f64, test_device());
    const StepContext context{
        .exec = {.device = test_device()}, .activations = &activations, .loss_sum = loss, .training = true, .seed = 1};
    DeviceInputs inputs;
    const std::vector<ModelInput> part = inputs.put(batch.part(group_->rank(), group_->size(), accumulation));
    strategy.accumulate_gradients(context, part, 1.0f, timers);
  }
  // The step's only messages must be `calls` all-reduces, together of `elements` elements of `element` bytes each.
  void expect_messages(DataParallel& strategy, std::size_t calls, Count elements, Bytes element = 4) {
    for (const Count accumulation : {1, 2}) {
      CommTrace trace;
      trace.attach(*group_);
      run_step(strategy, accumulation);
      const CommTrace::Totals totals = trace.totals("dp", "all_reduce");
      EXPECT_EQ(totals.calls, static_cast<Count>(calls)) << strategy.name() << ", accumulation " << accumulation;
      EXPECT_EQ(totals.bytes, element * elements) << strategy.name() << ", accumulation " << accumulation;
      EXPECT_EQ(trace.sum().calls, totals.calls) << trace.str();
    }
  }
  // One for each bucket; together they hold all gradients, and the padding between the first and the last of a bucket.
  void expect_messages(Bucketed& strategy, Bytes element = 4) {
    const std::vector<Count> buckets = strategy.bucket_elements();
    const Count elements = std::accumulate(buckets.begin(), buckets.end(), Count{0});
    EXPECT_GE(elements, model_->parameters().elements());
    EXPECT_LE(elements, all_elements());
    expect_messages(strategy, buckets.size(), elements, element);
  }
  std::size_t parameters() const { return model_->parameters().all().size(); }
  // From the first element of the first parameter to the last of the last: with the padding between them, of which there is none
  // on a CPU.
  Count all_elements() const {
    const Parameter& last = *model_->parameters().all().back();
    return last.offset + last.elements();
  }

  Ranks ranks_;
  std::unique_ptr<Communicator> group_ = ranks_.tensors().split(0, ranks_.rank(), "dp");
  std::unique_ptr<Model> model_ = make_model(model_section(GetParam()), 1, test_storage());
};

TEST_P(Messages, NaiveAndHooksSendOneForEachParameter) {
  for (const char* name : {"naive", "hooks"})
    expect_messages(*strategy_named(name, model_section(GetParam()))(*model_, *group_), parameters(),
                    model_->parameters().elements());
}

TEST_P(Messages, BucketedSendsOneForEachBucket) {
  Bucketed tiny(*model_, *group_, 1);
  EXPECT_EQ(tiny.bucket_elements().size(), parameters());
  expect_messages(tiny);
  Bucketed medium(*model_, *group_, 2 * kKiB);
  EXPECT_LT(medium.bucket_elements().size(), parameters());
  expect_messages(medium);
  Bucketed huge(*model_, *group_, kGiB);
  EXPECT_EQ(huge.bucket_elements(), std::vector<Count>{all_elements()});
  expect_messages(huge);
}

// In 16 bits the buckets are the same, and half as long on the wire. One rank's go nowhere and stay as they are.
TEST_P(Messages, ReductionIn16BitsHalvesTheTraffic) {
  for (const DType type : {DType::bf16, DType::f16}) {
    Bucketed halved(*model_, *group_, 2 * kKiB, type), whole(*model_, *group_, 2 * kKiB);
    EXPECT_EQ(halved.bucket_elements(), whole.bucket_elements());
    expect_messages(halved, group_->size() > 1 ? 2 : 4);
  }
}

// A bucket is closed as soon as it holds its size: all but the last hold at least that, and not more than one parameter beyond.
TEST_P(Messages, BucketsHaveTheSizeThatWasAskedFor) {
  Count largest = 0;  // with the padding behind it
  Count next = all_elements();
  for (auto it = model_->parameters().all().rbegin(); it != model_->parameters().all().rend(); ++it) {
    const Count begin = (*it)->offset;
    largest = std::max(largest, next - begin);
    next = begin;
  }
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
