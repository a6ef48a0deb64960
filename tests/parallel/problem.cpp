#include "parallel/problem.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/random.hpp"
#include "ops/cross_entropy.hpp"

namespace cohort::test {
namespace {

bool is_ignored(Ignored ignored, Count sample, Count samples, double chance) {
  switch (ignored) {
    case Ignored::none:
      return false;
    case Ignored::uneven:
      return chance * static_cast<double>(samples) < static_cast<double>(sample);
    case Ignored::second_half:
      return sample >= samples / 2;
  }
  return false;
}

}  // namespace

ModelSection model_section(const std::string& kind) {
  ModelSection model;
  model.kind = kind;
  model.layers = 2;
  if (kind == "mlp") {
    model.layers = 3;
    model.width = 8;
    model.inputs = 5;
    model.classes = 2;
    return model;
  }
  model.width = 16;
  model.heads = 4;
  model.kv_heads = kind == "llama" ? 2 : 0;
  model.ffn_width = 24;
  model.context = 8;
  model.vocabulary = 23;
  model.tied_head = kind == "gpt2";
  model.dropout = kind == "gpt2" ? 0.2 : 0.0;
  model.init_std = 0.2;  // the standard 0.02 would leave such a narrow model with gradients near zero
  return model;
}

GlobalBatch::GlobalBatch(const Problem& problem, Count step) : samples_(problem.samples) {
  const ModelSection model = model_section(problem.model);
  const bool mlp = model.kind == "mlp";
  const Count tokens = mlp ? 1 : model.context;
  const Count classes = mlp ? model.classes : model.vocabulary;
  const CounterRandom random(7, RandomPurpose::test, static_cast<std::uint32_t>(step));
  std::uint64_t index = 0;
  for (Count sample = 0; sample < samples_; ++sample) {
    slots_.push_back(sample);
    for (Count i = 0; mlp && i < model.inputs; ++i) features_.push_back(static_cast<float>(random.normal(index++)));
    for (Count i = 0; i < tokens; ++i) {
      if (!mlp) inputs_.push_back(static_cast<std::int32_t>(random.u32(index++) % model.vocabulary));
      const auto target = static_cast<std::int32_t>(random.u32(index++) % classes);
      targets_.push_back(is_ignored(problem.ignored, sample, samples_, random.uniform(index++)) ? ops::kIgnoredTarget : target);
    }
  }
}

std::vector<ModelInput> GlobalBatch::part(int rank, int ranks, Count accumulation) const {
  const Count micro_batch = samples_ / (ranks * accumulation);
  COHORT_CHECK(micro_batch * ranks * accumulation == samples_, "{} samples on {} ranks", samples_, ranks);
  std::vector<ModelInput> part;
  for (Count m = 0; m < accumulation; ++m) {
    const Count first = (m * ranks + rank) * micro_batch;
    part.push_back(whole().slice(first, first + micro_batch));
  }
  return part;
}

Count GlobalBatch::valid_targets() const { return count_valid_targets(whole()); }

Count count_valid_targets(const ModelInput& input) {
  return std::count_if(input.targets.begin(), input.targets.end(),
                       [](std::int32_t target) { return target != ops::kIgnoredTarget; });
}

}  // namespace cohort::test
