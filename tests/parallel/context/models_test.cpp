// Whole models whose samples are divided among the ranks: loss and gradients, summed over the ranks, are those of one rank.
#include <gtest/gtest.h>

#include "comm/mpi_communicator.hpp"
#include "mesh/mesh.hpp"
#include "models/gradient_check.hpp"
#include "parallel/context/ring_attention.hpp"

namespace cohort::test {
namespace {

constexpr Count kTokens = 24;  // 2, 4, 6 and 8 chunks
constexpr Count kSamples = 2;

struct Divided {
  const char* name;
  ModelSection config;
};

void PrintTo(const Divided& model, std::ostream* out) { *out << model.name; }

ModelSection with_tokens(ModelSection config, double dropout, const char* checkpointing = "none") {
  config.context = kTokens;
  config.dropout = dropout;
  config.activation_checkpointing = checkpointing;
  return config;
}

std::vector<Divided> models() {
  return {{"gpt2", with_tokens(gpt2_config(true), 0.0)},
          {"gpt2_dropout", with_tokens(gpt2_config(false), 0.3)},
          {"gpt2_dropout_checkpointing", with_tokens(gpt2_config(true), 0.3, "full")},
          {"gpt2_dropout_selective_checkpointing", with_tokens(gpt2_config(true), 0.3, "selective")},
          {"llama", with_tokens(llama_config(2, false), 0.0)},
          {"llama_one_kv_head_checkpointing", with_tokens(llama_config(1, true), 0.0, "full")}};
}

// This rank's part of a batch.
TestBatch part_of(const TestBatch& whole, const SequenceSplit& split, int rank) {
  TestBatch part = whole;
  part.inputs = split.part_of(rank, whole.inputs);
  part.targets = split.part_of(rank, whole.targets);
  part.positions = split.part_of(rank, whole.positions);
  return part;
}

class ContextParallelModel : public ::testing::TestWithParam<Divided> {
 protected:
  ContextParallelModel() {
    batch_.slots = {5, 2};  // anywhere in the global batch
  }

  // Forward and backward of this rank's tokens, summed over the ranks.
  Pass divided_pass(const ContextParallel& sequence) {
    const TestBatch part = part_of(batch_, ring_.split(), world_->rank());
    DeviceInputs inputs;
    const ModelInput input = inputs.put(part.input());
    Arena arena("test", test_device());
    soil(arena);
    StepContext context = context_with(*model_, arena);
    context.training = true;
    context.seed = PassOptions{}.seed;
    context.sequence = &sequence;
    Hooks none;
    model_->parameters().zero_gradients();
    model_->forward(context, input, 1.0f, none);
    model_->backward(context, input, none);
    const Tensor& own = model_->parameters().flat_gradients();
    const Tensor gradients = Tensor::zeros("test", own.shape());  // on the host
    gradients.copy_from(own);
    world_->all_reduce(gradients.f32(), gradients.elements(), DType::f32, ReduceOp::sum);
    return {all_reduce_value(*world_, ops::number_of(context.loss_sum), ReduceOp::sum), gradients};
  }

  const ModelSection& config() const { return GetParam().config; }

  std::unique_ptr<Communicator> world_ = make_world_communicator();
  Mesh mesh_{*world_, MeshShape(1, 1, world_->size(), 1), test_device(), ranks_share_devices(world_->size())};
  RingAttention ring_{mesh_.axis(Axis::cp), kTokens};
  std::unique_ptr<Model> model_ = make_bent_model(config());
  TestBatch batch_ = make_batch(config(), kSamples, kTokens);
};

// The loss is a sum of some forty terms of about 3 in fp64, each off by some fp32 roundings.
constexpr double kLossTolerance = 1e-6;
// Gradients are sums of the same terms in another order: see kReordered. That of a key's bias is the sum of dk over all tokens,
// which cancels to nothing: what is left is the rounding of terms as large as a tenth of the block's largest gradient.
::testing::AssertionResult same_gradients(const Model& model, const Pass& actual, const Pass& expected,
                                          double tolerance = kReordered) {
  return same_to_rounding(model, actual.gradients, expected.gradients, tolerance, 0.1);
}

TEST_P(ContextParallelModel, LossAndGradientsAreThoseOfOneRank) {
  const Pass alone = run_pass(*model_, batch_.input());
  const Pass divided = divided_pass(ring_);
  EXPECT_NEAR(divided.loss, alone.loss, kLossTolerance * alone.loss);
  EXPECT_TRUE(same_gradients(*model_, divided, alone));
}

// Documents that begin and end in the parts of several ranks.
TEST_P(ContextParallelModel, SeparateDocumentsAreThoseOfOneRank) {
  for (const Count mean : {2, 8, 30}) {
    batch_.pack(ops::random_first_keys(kSamples, kTokens, mean, 7));
    const Pass alone = run_pass(*model_, batch_.input());
    const Pass divided = divided_pass(ring_);
    EXPECT_NEAR(divided.loss, alone.loss, kLossTolerance * alone.loss) << mean;
    EXPECT_TRUE(same_gradients(*model_, divided, alone)) << mean;
  }
}

TEST_P(ContextParallelModel, EvaluationIsThatOfOneRank) {
  const TestBatch part = part_of(batch_, ring_.split(), world_->rank());
  DeviceInputs inputs;
  const ModelInput input = inputs.put(part.input());
  Arena arena("test", test_device());
  StepContext context = context_with(*model_, arena);
  context.sequence = &ring_;
  Hooks none;
  model_->loss(context, input, none);
  const double loss = all_reduce_value(*world_, ops::number_of(context.loss_sum), ReduceOp::sum);
  const double alone = run_loss(*model_, batch_.input());
  EXPECT_NEAR(loss, alone, kLossTolerance * alone);
  EXPECT_THROW(model_->last_logits(context, input, ops::filled({kSamples, config().vocabulary}, 0.0f), none), Error);
}

TEST_P(ContextParallelModel, SameBitsEachTime) {
  const Pass first = divided_pass(ring_);
  for (int run = 0; run < 2; ++run) {
    const Pass again = divided_pass(ring_);
    EXPECT_EQ(again.loss, first.loss);
    EXPECT_TRUE(ops::same_bits(again.gradients, first.gradients));
  }
}

// Mutant: attention is right, but all else takes the rows here for the first tokens of the sample: rope and position embeddings,
// and the dropout masks of the residual stream.
class LocalPositions : public ContextParallel {
 public:
  explicit LocalPositions(const RingAttention& ring) : ring_(ring) {}
  ops::TokenRows rows() const override {
    ops::TokenRows rows = ring_.rows();
    for (ops::TokenRun& run : rows.runs) run.position = run.row;
    return rows;
  }
  void attention_forward(const StepContext& context, const ops::AttentionShape& here, const Tensor& out, const Tensor& lse,
                         const Tensor& qkv, const ops::DropoutKey& key) const override {
    ring_.attention_forward(context, here, out, lse, qkv, key);
  }
  void attention_backward(const StepContext& context, const ops::AttentionShape& here, const Tensor& dqkv, const Tensor& dout,
                          const Tensor& out, const Tensor& lse, const Tensor& qkv, const ops::DropoutKey& key) const override {
    ring_.attention_backward(context, here, dqkv, dout, out, lse, qkv, key);
  }

 private:
  const RingAttention& ring_;
};

TEST_P(ContextParallelModel, LocalPositionsAreRejected) {
  const Pass alone = run_pass(*model_, batch_.input());
  const Pass wrong = divided_pass(LocalPositions(ring_));
  const bool divided = world_->size() > 1;  // one rank's positions are local
  EXPECT_EQ(std::abs(wrong.loss - alone.loss) > 100 * kLossTolerance * alone.loss, divided);
  EXPECT_EQ(!same_gradients(*model_, wrong, alone, 100 * kReordered), divided);
}

INSTANTIATE_TEST_SUITE_P(All, ContextParallelModel, ::testing::ValuesIn(models()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace cohort::test
