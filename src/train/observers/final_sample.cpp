#include <algorithm>

#include "base/console.hpp"
#include "comm/consensus.hpp"
#include "observe/clock.hpp"
#include "observe/metrics.hpp"
#include "train/generate.hpp"
#include "train/nonfinite.hpp"
#include "train/observers/observers.hpp"

namespace cohort {
namespace {

class FinalSample : public StepObserver {
 public:
  explicit FinalSample(TrainingRun& run) : run_(run) {}

  void end_run(bool completed) override {
    if (!completed) return;
    std::optional<std::string> unit;  // if the logits were not finite: the first of this rank, or ""
    try {
      show();
    } catch (const LogitsNotFinite& error) {
      unit = error.unit;
    }
    // All wait here for rank 0's sample.
    if (all_reduce_value(run_.world, unit ? 1 : 0, ReduceOp::max) == 0) return;
    const std::string where = first_not_finite_in_words(run_.world, unit.value_or(""));
    throw SharedError(ExitCode::training, fmt::format("the sample after step {}: the logits are not finite{}{}", run_.done,
                                                      where.empty() ? "" : "; ", where));
  }

 private:
  void show() {
    const RunConfig& config = run_.config;
    const auto& tokens = run_.data.tokens;
    if (!tokens || config.sample.tokens == 0) return;
    // Ranks that hold the model between them generate together: those of rank 0's replica, and with ZeRO all.
    const bool holds_a_part = run_.mesh.index(Axis::dp) == 0 && run_.mesh.index(Axis::cp) == 0;
    if (!holds_a_part && run_.train_step.strategy().shard_group() == nullptr) return;
    const Tokenizer& tokenizer = tokens->tokenizer();
    std::vector<std::int32_t> prompt;
    if (config.sample.prompt.empty()) {
      prompt.resize(static_cast<std::size_t>(std::min(config.model.context, tokens->tokens(Split::validation))));
      tokens->read(Split::validation, 0, prompt);
    } else {
      prompt = tokenizer.encode(config.sample.prompt, "sample.prompt");
    }
    const GenerateOptions options{
        .vocabulary = tokenizer.vocabulary_size(),
        .tokens = config.sample.tokens,
        .sampling = {.temperature = config.sample.temperature, .top_k = config.sample.top_k},
        .seed = config.run.seed,
        .context = config.model.context,
        .kernels = run_.train_step.exec().kernels,
    };
    const auto texts = generate(run_.train_step.predictor(), {&prompt, 1}, options, run_.train_step.strategy());
    if (run_.world.rank() != 0) return;
    const std::string text = tokenizer.decode(texts.front());
    print_to_console(fmt::format("sample      the model continues {}:\n{}\n",
                                 config.sample.prompt.empty() ? "the start of the validation text" : "sample.prompt", text));
    MetricsWriter(std::filesystem::path(config.run.directory) / "samples.jsonl", run_.done - 1)
        .write({{"step", run_.done}, {"prompt", tokenizer.decode(prompt)}, {"text", text}});
    if (run_.tensorboard) run_.tensorboard->write({.step = run_.done, .time = seconds_since_1970(), .texts = {{"sample", text}}});
  }

  TrainingRun& run_;
};

}  // namespace

std::unique_ptr<StepObserver> make_final_sample(TrainingRun& run) { return std::make_unique<FinalSample>(run); }

}  // namespace cohort
