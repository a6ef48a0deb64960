// What a validation measures, beside its loss (layouts_test.cpp): on any number of ranks, and without disturbing the training.
#include "train/evaluate.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numbers>

#include "base/random.hpp"
#include "comm/self_communicator.hpp"
#include "data/tokenizer_kind.hpp"
#include "support/device_model.hpp"
#include "support/expect_error.hpp"
#include "train/choices.hpp"
#include "train/input_buffer.hpp"
#include "trainer_fixture.hpp"

namespace cohort::test {
namespace {

/// Of which no target counts.
class NothingToLearn : public Dataset {
 public:
  Count samples(Split) const override { return 3; }
  void fill(Split, std::span<const Count> ids, Batch& batch) const override {
    batch.samples = static_cast<Count>(ids.size());
    batch.tokens_per_sample = 2;
    batch.inputs.assign(ids.size() * 2, 0);
    batch.targets.assign(ids.size() * 2, -1);
  }
  Count classes() const override { return 4; }
  std::string name() const override { return "nothing.h5"; }
};

class Evaluations : public TrainerTest {
 protected:
  EvaluationContext of_all(std::span<const std::int32_t> token_bytes = {}) {
    return {.exec = exec_,
            .hooks = none_,
            .activations = activations_,
            .share = {world_->rank(), world_->size()},
            .token_bytes = token_bytes};
  }

  /// The sum of log p(target) over the targets that count, each from the logits behind its prefix.
  double log_likelihood(Predictor& model, const ChoiceSequence& sequence) {
    InputBuffer buffer(test_device(), model.classes());
    const Tensor logits = Tensor::zeros("test.logits", {1, model.classes()});
    double sum = 0.0;
    for (std::size_t t = 0; t < sequence.targets.size(); ++t) {
      if (sequence.targets[t] < 0) continue;
      ModelInput prefix;
      prefix.samples = 1;
      prefix.inputs = std::span(sequence.inputs).first(t + 1);
      model.last_logits({.exec = exec_, .activations = &activations_}, buffer.put(prefix), logits, none_);
      double all = 0.0;
      for (const float logit : logits.span<float>()) all += std::exp(static_cast<double>(logit));
      sum += logits.f32()[sequence.targets[t]] - std::log(all);
    }
    return sum;
  }

  ops::Exec exec_{.device = test_device()};
  Hooks none_;
  Arena activations_{"test.activations", test_device()};
};

TEST(TokenBytes, AreThoseOfTheText) {
  const std::vector<std::string_view> texts{"a\u00e9\u20ac\U0001F600"};
  const std::vector<std::string> names{"text"};
  EXPECT_EQ(bytes_of_tokens(*learn_tokenizer("char", texts, names)), (std::vector<std::int32_t>{1, 2, 3, 4}));
  const auto bpe = learn_tokenizer("bpe", texts, names, {.vocabulary = 257, .pattern = "", .special = {"<|endoftext|>"}});
  const std::vector<std::int32_t> bytes = bytes_of_tokens(*bpe);
  ASSERT_EQ(bytes.size(), 257u);
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 1), 256);
  EXPECT_EQ(bytes.at(static_cast<std::size_t>(bpe->special_tokens().front().id)), 0) << "no text spells it";
}

TEST_F(Evaluations, BitsPerByteAreOfTheTextOfTheTargets) {
  RunConfig run = config();
  const RunData data = open_data(*world_, run, DataUse::evaluation);
  const auto model = make_model(run.model, 1, test_storage());
  std::vector<std::int32_t> bytes = data.token_bytes;
  const auto measure = [&](Count micro_batch) { return evaluate(of_all(bytes), *model, *data.dataset, *world_, micro_batch, 0); };
  const Evaluation letters = measure(2);
  EXPECT_NEAR(letters.bits_per_byte.value(), letters.loss / std::numbers::ln2, 1e-12) << "a byte a token";
  EXPECT_FALSE(letters.accuracy);
  // As if each letter with an odd id had three bytes.
  for (std::size_t id = 1; id < bytes.size(); id += 2) bytes[id] = 3;
  Count text = 0;
  Batch batch;
  for (Count sample = 0; sample < data.dataset->samples(Split::validation); ++sample) {
    data.dataset->fill(Split::validation, std::span(&sample, 1), batch);
    for (const std::int32_t target : batch.targets) text += target % 2 == 1 ? 3 : 1;
  }
  for (const Count micro_batch : {1, 2, 3, 8}) {
    const Evaluation evaluation = measure(micro_batch);
    const double wanted =
        evaluation.loss * static_cast<double>(evaluation.targets) / std::numbers::ln2 / static_cast<double>(text);
    EXPECT_NEAR(evaluation.bits_per_byte.value(), wanted, 1e-12) << micro_batch;
  }
}

TEST_F(Evaluations, AccuracyIsTheShareOfRightClasses) {
  RunConfig run = mlp_config();
  const RunData data = open_data(*world_, run, DataUse::evaluation);
  const auto model = make_model(run.model, 5, test_storage());
  InputBuffer buffer(test_device(), model->classes());
  const Tensor logits = Tensor::zeros("test.logits", {1, model->classes()});
  for (const Count limit : {0, 1, 5}) {
    const Count samples = limit > 0 ? limit : data.dataset->samples(Split::validation);
    Count right = 0;
    Batch batch;
    for (Count sample = 0; sample < samples; ++sample) {
      data.dataset->fill(Split::validation, std::span(&sample, 1), batch);
      model->last_logits({.exec = exec_, .activations = &activations_}, buffer.put(as_input(batch, {})), logits, none_);
      right += (logits.f32()[1] > logits.f32()[0] ? 1 : 0) == batch.targets.front() ? 1 : 0;
    }
    for (const Count micro_batch : {1, 2, 8}) {
      const Evaluation evaluation = evaluate(of_all(), *model, *data.dataset, *world_, micro_batch, limit);
      EXPECT_EQ(evaluation.accuracy.value(), static_cast<double>(right) / static_cast<double>(samples)) << micro_batch << limit;
      EXPECT_FALSE(evaluation.bits_per_byte);
    }
  }
}

TEST_F(Evaluations, WithoutTargetsThereIsNoLoss) {
  const auto model = make_model(config({"model.vocabulary=4"}).model, 1, test_storage());
  EXPECT_ERROR(evaluate(of_all(), *model, NothingToLearn(), *world_, 2, 0), ExitCode::data, "nothing.h5", "no target");
}

// The right endings are those that the model itself finds likeliest by the logits behind each prefix; then all are right, and
// with some labels changed all but these. On every number of ranks, more than questions among them.
TEST_F(Evaluations, ChoicesAreScoredByTheirLogLikelihood) {
  RunConfig run = config({"model.init_std=0.5"});
  const RunData data = open_data(*world_, run, DataUse::evaluation);
  const auto model = make_model(run.model, 1, test_storage());
  const CounterRandom random(3, RandomPurpose::test);
  std::string text;
  for (std::uint64_t q = 0; q < 20; ++q) {
    const auto word = [&](std::uint64_t key, std::uint64_t most) {
      std::string letters;
      for (std::uint64_t i = 0; i <= random.u32(q * 100 + key) % most; ++i)
        letters += static_cast<char>('a' + random.u32(q * 100 + key * 10 + i) % 20);
      return letters;
    };
    text += nlohmann::json{{"ctx", word(1, 7)}, {"endings", {word(2, 3), word(3, 5), word(4, 6)}}, {"label", 0}}.dump() + "\n";
  }
  const Tokenizer& tokenizer = data.tokens->tokenizer();
  std::vector<ChoiceQuestion> summed = read_choices(text, "q.jsonl", tokenizer, run.model.context, 0);
  std::vector<ChoiceQuestion> normalised = summed;
  bool differ = false;
  for (std::size_t q = 0; q < summed.size(); ++q) {
    std::vector<double> sums, means;
    for (std::size_t e = 0; e < 3; ++e) {
      sums.push_back(log_likelihood(*model, summed[q].endings[e]));
      means.push_back(sums.back() / static_cast<double>(summed[q].ending_bytes[e]));
    }
    summed[q].label = std::max_element(sums.begin(), sums.end()) - sums.begin();
    normalised[q].label = std::max_element(means.begin(), means.end()) - means.begin();
    differ = differ || summed[q].label != normalised[q].label;
  }
  EXPECT_TRUE(differ) << "else this test could not tell the two";
  const auto score = [&](const std::vector<ChoiceQuestion>& questions) {
    return score_choices(of_all(), *model, questions, "q.jsonl", *world_);
  };
  EXPECT_EQ(score(summed).accuracy, 1.0);
  EXPECT_LT(score(summed).accuracy_normalised, 1.0);
  EXPECT_EQ(score(normalised).accuracy_normalised, 1.0);
  EXPECT_LT(score(normalised).accuracy, 1.0);
  EXPECT_EQ(score(summed).questions, 20);
  for (std::size_t q = 0; q < 5; ++q) summed[q].label = (summed[q].label + 1) % 3;
  EXPECT_EQ(score(summed).accuracy, 0.75);
  summed.resize(1);
  EXPECT_EQ(score(summed).accuracy, 0.0) << "fewer endings than ranks";
}

// Weights, moments, losses and all else of each step, bit for bit.
TEST_F(Evaluations, AValidationBeforeTheFirstStepChangesNoBitOfTheTraining) {
  if (root()) {
    std::ofstream(folder_ / "q.jsonl") << R"({"ctx": "abc", "endings": ["d", "ef"], "label": 1})" << '\n'
                                       << R"({"ctx": "g", "endings": ["hij", "k l", "m"], "label": 0})" << '\n';
  }
  world_->barrier();
  std::vector<Overrides> layouts{{"parallel.dp=0"}, {"parallel.data=zero1"}, {"parallel.data=zero3"}};
  if (world_->size() % 2 == 0) {
    layouts.insert(layouts.end(),
                   {{"parallel.pp=2"}, {"parallel.tp=2"}, {"parallel.tp=2", "parallel.sequence=true"}, {"parallel.cp=2"}});
  }
  nlohmann::json first;
  for (const Overrides& layout : layouts) {
    SCOPED_TRACE(layout.back());
    Overrides plain = layout, more = layout;
    plain.emplace_back("run.name=plain");
    more.insert(more.end(),
                {"run.name=more", "train.validate_at_start=true", "train.validation_choices=" + (folder_ / "q.jsonl").string()});
    ASSERT_EQ(train(config(plain), ExistingRun::overwrite), ExitCode::success);
    ASSERT_EQ(train(config(more), ExistingRun::overwrite), ExitCode::success);
    const Remains without = remains("plain"), with = remains("more");
    EXPECT_EQ(without.tensors, with.tensors);
    EXPECT_EQ(without.steps, with.steps);
    ASSERT_EQ(with.metrics.size(), without.metrics.size() + 1);
    const nlohmann::json& start = with.metrics.front();
    EXPECT_EQ(start.at("step"), 0);
    for (const char* key : {"validation_loss", "validation_bits_per_byte", "choices_accuracy", "choices_accuracy_normalised"})
      EXPECT_TRUE(start.contains(key)) << key;
    for (std::size_t i = 0; i < without.metrics.size(); ++i) {
      nlohmann::json record = with.metrics[i + 1];
      EXPECT_EQ(record.contains("choices_accuracy"), record.contains("validation_loss"));
      record.erase("choices_accuracy");
      record.erase("choices_accuracy_normalised");
      EXPECT_EQ(record, without.metrics[i]);
    }
    // The initial weights are those of every layout, and so is what is measured of them.
    if (first.is_null()) first = start;
    EXPECT_NEAR(start.at("validation_loss").get<double>(), first.at("validation_loss").get<double>(), 1e-5);
    EXPECT_EQ(start.at("choices_accuracy"), first.at("choices_accuracy"));
  }
}

// A resumed run has had its first step.
TEST_F(Evaluations, ThereIsNoSecondValidationBeforeTheFirstStep) {
  const Overrides both{"run.name=run", "train.validate_at_start=true", "schedule.decay_steps=10"};
  Overrides half = both;
  half.emplace_back("train.steps=5");
  ASSERT_EQ(train(config(half)), ExitCode::success);
  ASSERT_EQ(train(config(both), ExistingRun::resume), ExitCode::success);
  const std::vector<double> steps = remains("run").series("step");
  ASSERT_EQ(steps.size(), 11u);
  for (std::size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i], static_cast<double>(i));
}

}  // namespace
}  // namespace cohort::test
