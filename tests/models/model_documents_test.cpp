// Samples packed with documents that do not see each other: a packed batch is its documents one by one.
#include <gtest/gtest.h>

#include "gradient_check.hpp"
#include "model_cases.hpp"

namespace cohort::test {
namespace {

constexpr Count kSamplesOfBatch = 3;

TestBatch packed_batch(const ModelSection& config, Count mean) {
  TestBatch batch = make_batch(config, kSamplesOfBatch, config.context);
  batch.pack(ops::random_first_keys(kSamplesOfBatch, config.context, mean, 3));
  return batch;
}

// The documents of a batch, each a sample of its own.
std::vector<TestBatch> documents_of(const TestBatch& batch) {
  std::vector<TestBatch> documents;
  for (std::size_t begin = 0, end = 1; begin < batch.inputs.size(); begin = end++) {
    while (end < batch.inputs.size() && batch.positions[end] != 0) ++end;
    const auto part = [&](const std::vector<std::int32_t>& values) {
      return std::vector(values.begin() + static_cast<std::ptrdiff_t>(begin), values.begin() + static_cast<std::ptrdiff_t>(end));
    };
    documents.push_back({1, part(batch.inputs), part(batch.targets), {}, {0}});
  }
  return documents;
}

// Loss and gradients of the documents, one after the other.
Pass pass_of_documents(Model& model, const std::vector<TestBatch>& documents) {
  Pass sum;
  for (const TestBatch& document : documents) {
    const double loss = sum.loss;
    sum = run_pass(model, document.input(), {.accumulate = loss != 0.0});
    sum.loss += loss;
  }
  return sum;
}

// A sum of some eighty terms of about 5 in fp64, each off by some fp32 roundings.
constexpr double kLossDrift = 1e-6;
// As that of a sum over chunks: the gradient of a key's bias cancels to rounding of terms as large as a tenth of the unit's.
::testing::AssertionResult same_gradients_as(const Model& model, const Pass& actual, const Pass& expected,
                                             double tolerance = kReordered) {
  return same_to_rounding(model, actual.gradients, expected.gradients, tolerance, 0.1);
}

class ModelDocuments : public ::testing::TestWithParam<const char*> {
 protected:
  ModelSection config() const { return wide_config(GetParam()); }
};

TEST_P(ModelDocuments, PackedAreThoseOneByOne) {
  const auto model = make_bent_model(config());
  for (const Count mean : {2, 8, 20}) {
    const TestBatch batch = packed_batch(config(), mean);
    const std::vector<TestBatch> documents = documents_of(batch);
    ASSERT_GT(documents.size(), 3u);
    const Pass one_by_one = pass_of_documents(*model, documents);
    const Pass packed = run_pass(*model, batch.input());
    EXPECT_NEAR(packed.loss, one_by_one.loss, kLossDrift * one_by_one.loss) << mean;
    EXPECT_TRUE(same_gradients_as(*model, packed, one_by_one)) << mean;
    EXPECT_NEAR(run_loss(*model, batch.input()), one_by_one.loss, kLossDrift * one_by_one.loss) << mean;
  }
}

TEST_P(ModelDocuments, MicroBatchesAreSlices) {
  const auto model = make_bent_model(config());
  const TestBatch batch = packed_batch(config(), 8);
  const Pass whole = run_pass(*model, batch.input());
  const Pass first = run_pass(*model, batch.input().slice(0, 1));
  const Pass both = run_pass(*model, batch.input().slice(1, 3), {.accumulate = true});
  EXPECT_NEAR(first.loss + both.loss, whole.loss, kLossDrift * whole.loss);
  EXPECT_TRUE(same_gradients_as(*model, both, whole));
}

TEST_P(ModelDocuments, CheckpointingHasTheSameBits) {
  const TestBatch batch = packed_batch(config(), 8);
  const Pass expected = run_pass(*make_bent_model(config()), batch.input());
  for (const char* choice : {"selective", "full"}) {
    ModelSection checkpointing = config();
    checkpointing.activation_checkpointing = choice;
    const Pass pass = run_pass(*make_bent_model(checkpointing), batch.input());
    EXPECT_EQ(pass.loss, expected.loss) << choice;
    EXPECT_TRUE(ops::same_bits(pass.gradients, expected.gradients)) << choice;
  }
}

// Joined documents, positions that go on or stand still, a mask that is off by one, a target too many: none is taken for the
// documents one by one.
TEST_P(ModelDocuments, TheComparisonRejectsMistakes) {
  const auto model = make_bent_model(config());
  const TestBatch batch = packed_batch(config(), 8);
  const Pass right = pass_of_documents(*model, documents_of(batch));
  ASSERT_TRUE(same_gradients_as(*model, run_pass(*model, batch.input()), right));
  const auto rejects = [&](const auto& mistake) {
    TestBatch wrong = batch;
    mistake(wrong);
    const Pass pass = run_pass(*model, wrong.input());
    return std::abs(pass.loss - right.loss) > kLossDrift * right.loss && !same_gradients_as(*model, pass, right, 10 * kReordered);
  };
  EXPECT_TRUE(rejects([](TestBatch& b) { b.first_keys = b.positions = {}; }));
  const auto positions_go_on = [&](TestBatch& b) {
    for (std::size_t i = 0; i < b.positions.size(); ++i) b.positions[i] += b.first_keys[i];
  };
  EXPECT_EQ(rejects(positions_go_on), config().kind == "gpt2");  // rotary positions say how far apart tokens are, and no more
  EXPECT_TRUE(rejects([](TestBatch& b) { std::fill(b.positions.begin(), b.positions.end(), 0); }));
  EXPECT_TRUE(rejects([](TestBatch& b) {
    for (std::int32_t& first : b.first_keys) first = std::max(0, first - 1);
  }));
  EXPECT_TRUE(rejects([](TestBatch& b) {
    const auto ends = std::find(b.positions.begin() + 1, b.positions.end(), 0) - b.positions.begin() - 1;
    b.targets[static_cast<std::size_t>(ends)] = 1;
  }));
}

INSTANTIATE_TEST_SUITE_P(Families, ModelDocuments, ::testing::Values("gpt2", "llama", "qwen3"),
                         [](const auto& family) { return std::string(family.param); });

}  // namespace
}  // namespace cohort::test
