// What tensor parallelism sends, beside the formulas of the Megatron papers.
#include <gtest/gtest.h>

#include "comm/trace.hpp"
#include "parallel/tensor/training.hpp"

namespace cohort::test {
namespace {

class Messages : public ::testing::Test {
 protected:
  void SetUp() override {
    if (ranks_.size() == 1) GTEST_SKIP() << "one part sends nothing; see OnePart";
  }
  // Of forward and backward of one micro-batch.
  CommTrace trace_of(ModelSection section, Count layers, const Form& form) {
    section.layers = layers;
    TensorParallelGroup parallel(ranks_.tensors(), form.sequence, form.overlap);
    const auto model = make_model(section, 1, test_storage(), parallel);
    Arena arena("test", test_device());
    const Batch batch(section, 0);
    DeviceInputs inputs;
    const ModelInput input = inputs.put(batch.input());
    const Tensor loss = Tensor::zeros("test.loss", {1}, DType::f64, test_device());
    const StepContext context{.exec = {.device = test_device()}, .activations = &arena, .loss_sum = loss, .training = true};
    Hooks hooks;
    CommTrace trace;
    trace.attach(ranks_.tensors());
    model->forward(context, input, 1.0f, hooks);
    model->backward(context, input, hooks);
    ranks_.tensors().observe({});
    return trace;
  }
  static CommTrace::Totals of(const CommTrace& trace, const char* operation) { return trace.totals("tp", operation); }
  // What one more block sends.
  CommTrace::Totals of_a_block(const ModelSection& section, const Form& form, const char* operation) {
    const auto two = of(trace_of(section, 2, form), operation), three = of(trace_of(section, 3, form), operation);
    return {three.calls - two.calls, three.elements - two.elements, three.bytes - two.bytes};
  }
  static Count rows(const ModelSection& section) { return kSamples * section.context; }

  Ranks ranks_;
};

// Shoeybi et al. 2019, section 3: "two all-reduce operations in the forward path and two in the backward path" a layer, of B T C
// elements each.
TEST_F(Messages, ABlockSumsTwiceForwardAndTwiceBackward) {
  for (const ModelSection& section : {gpt2_section(0.0), gpt2_section(0.2), llama_section(12)}) {
    const CommTrace::Totals block = of_a_block(section, {}, "all_reduce");
    EXPECT_EQ(block.calls, 4);
    EXPECT_EQ(block.elements, 4 * rows(section) * section.width);
    // Beside the blocks: the embedding forward and the head backward; maximum, and both sums of the softmax.
    const CommTrace trace = trace_of(section, 2, {});
    EXPECT_EQ(of(trace, "all_reduce").calls, 4 * 2 + 2 + 2);
    EXPECT_EQ(of(trace, "all_reduce").elements, (4 * 2 + 2) * rows(section) * section.width + 3 * rows(section));
    EXPECT_EQ(trace.sum().calls, of(trace, "all_reduce").calls) << trace.str();
  }
}

// Korthikanti et al. 2022, section 4.2.2: each all-reduce is a reduce-scatter and an all-gather; backward gathers the input of
// both pairs again. And the gradients of norms, and of biases after a sum, are summed over the parts.
TEST_F(Messages, WithSequenceParallelismASumIsAReduceScatterAndAnAllGather) {
  for (const ModelSection& section : {gpt2_section(0.2), llama_section(12)}) {
    const Count all = rows(section) * section.width;
    const bool gpt2 = section.kind == "gpt2";
    EXPECT_EQ(of_a_block(section, kSequence, "reduce_scatter").calls, 4);
    EXPECT_EQ(of_a_block(section, kSequence, "reduce_scatter").elements, 4 * all);
    EXPECT_EQ(of_a_block(section, kSequence, "all_gather").calls, 4 + 2);
    EXPECT_EQ(of_a_block(section, kSequence, "all_gather").elements, (4 + 2) * all);
    EXPECT_EQ(of_a_block(section, kSequence, "all_reduce").calls, 1);
    EXPECT_EQ(of_a_block(section, kSequence, "all_reduce").elements, (gpt2 ? 2 * 2 + 2 : 2) * section.width);
    const CommTrace trace = trace_of(section, 2, kSequence);
    EXPECT_EQ(of(trace, "reduce_scatter").calls, 4 * 2 + 2);
    EXPECT_EQ(of(trace, "all_gather").calls, (4 + 2) * 2 + 2);
  }
}

// Wang et al. 2023: the gatherings before a product, and the sums after one, go around the ring and move what the collectives do;
// the gathering that a weight gradient hides stays one.
TEST_F(Messages, WithOverlapBlocksGoAroundTheRing) {
  const int turns = ranks_.size() - 1;
  for (const ModelSection& section : {gpt2_section(0.2), llama_section(12)}) {
    const Count all = rows(section) * section.width;
    EXPECT_EQ(of_a_block(section, kOverlap, "send").calls, 8 * turns);
    EXPECT_EQ(of_a_block(section, kOverlap, "send").elements, 8 * turns * all / ranks_.size());
    EXPECT_EQ(of_a_block(section, kOverlap, "all_gather").calls, 2);
    EXPECT_EQ(of_a_block(section, kOverlap, "reduce_scatter").calls, 0);
    EXPECT_EQ(of_a_block(section, kOverlap, "all_reduce").calls, of_a_block(section, kSequence, "all_reduce").calls);
  }
}

// Key/value heads that several parts hold: their gradients, 2 NKV HS C elements a block, are summed in one message.
TEST_F(Messages, SharedKeyValueHeadsAddOneSum) {
  const ModelSection section = llama_section(1);
  const CommTrace::Totals block = of_a_block(section, {}, "all_reduce");
  EXPECT_EQ(block.calls, 4 + 1);
  EXPECT_EQ(block.elements, 4 * rows(section) * section.width + 2 * (section.width / section.heads) * section.width);
}

// Counts the operations between whose start and end gradients changed.
class Listening : public TensorParallelGroup {
 public:
  using TensorParallelGroup::TensorParallelGroup;
  void know(const ParameterRegistry& parameters) { gradients_ = parameters.flat_gradients(); }
  int overlapped() const { return overlapped_; }

 protected:
  void do_sum(const Tensor& x, const Site& site) override {
    at_start_ = now();
    TensorParallelGroup::do_sum(x, site);
  }
  void do_gather(const Tensor& all, const Tensor& own, const Site& site) override {
    at_start_ = now();
    TensorParallelGroup::do_gather(all, own, site);
  }
  void do_sum_scatter(const Tensor& own, const Tensor& partials, const Site& site) override {
    at_start_ = now();
    TensorParallelGroup::do_sum_scatter(own, partials, site);
  }
  void wait() override {
    if (!at_start_.empty() && at_start_ != now()) ++overlapped_;
    at_start_.clear();
    TensorParallelGroup::wait();
  }

 private:
  std::vector<float> now() const {
    const Tensor host = gradients_.to_host();
    return {host.f32(), host.f32() + host.elements()};
  }

  Tensor gradients_;
  std::vector<float> at_start_;
  int overlapped_ = 0;
};

// In backward each pair's sum goes on while its weight gradient is computed, unless it hides beside its own terms; so does the
// second gathering of its input.
TEST_F(Messages, OverlapWithWeightGradients) {
  const ModelSection section = gpt2_section(0.0);
  const int pairs = static_cast<int>(2 * section.layers);
  const int passes = static_cast<int>(kSteps * kAccumulation);
  for (const Form& form : kForms) {
    Listening parallel(ranks_.tensors(), form.sequence, form.overlap);
    train(section, parallel, ranks_.mesh(), DType::f32, [&](const ParameterRegistry& parameters) { parallel.know(parameters); });
    EXPECT_EQ(parallel.overlapped(), passes * pairs * (form.sequence && !form.overlap ? 2 : 1));
  }
}

TEST_F(Messages, OneOperationAtATime) {
  TensorParallelGroup parallel(ranks_.tensors());
  const Tensor x = Tensor::zeros("test", {2, 3}, DType::f32, test_device());
  parallel.start_sum_rows(x, x);
  EXPECT_THROW(parallel.start_sum_rows(x, x), Error);
  parallel.finish();
  parallel.finish();  // nothing is under way, which is fine
}

TEST(OnePart, SendsNothing) {
  const Ranks ranks;
  if (ranks.size() > 1) GTEST_SKIP();
  CommTrace trace;
  trace.attach(ranks.tensors());
  for (const Form& form : kForms) {
    TensorParallelGroup parallel(ranks.tensors(), form.sequence, form.overlap);
    train(gpt2_section(0.2), parallel, ranks.mesh());
  }
  EXPECT_EQ(trace.sum().calls, 0) << trace.str();
  ranks.tensors().observe({});
}

// A part may be looked at without the others, but not run.
TEST(OnePart, OfSeveralDoesNotRunAlone) {
  TensorParallel part(2, 1, false);
  const Tensor x = Tensor::zeros("test", {2, 3});
  EXPECT_THROW(part.sum(x), Error);
}

}  // namespace
}  // namespace cohort::test
