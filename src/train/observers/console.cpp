#include "base/console.hpp"
#include "base/text.hpp"
#include "config/model_rules.hpp"
#include "train/estimate.hpp"
#include "train/observers/observers.hpp"

namespace cohort {
namespace {

class Console : public StepObserver {
 public:
  explicit Console(TrainingRun& run) : run_(run) {}

  void begin_run() override {
    const RunConfig& config = run_.config;
    std::string text = fmt::format("{}{}strategy    {} on {}, {}\nrun folder  {}\n",
                                   describe_run(config, run_.sampler.samples(), run_.launcher.local_size.value_or(0)),
                                   describe_mixture(config, run_.data), run_.train_step.strategy().name(),
                                   counted(run_.world.size(), "rank"), run_.mesh.shape().str(), config.run.directory);
    if (const std::optional<double> floor = entropy())
      text += fmt::format("floor       {:.4f} nats per token: the entropy of this corpus, which no model can beat on average\n",
                          *floor);
    if (!run_.launcher.job_id.empty()) text += fmt::format("job         {}\n", run_.job_in_words());
    if (run_.done > 0) {
      text += fmt::format("resumed     at step {}\n", run_.done);
      for (const std::string& note : run_.notes) text += fmt::format("warning: {}\n", note);
    } else if (!config.run.initial_checkpoint.empty()) {
      text += fmt::format("weights     from {}\n", config.run.initial_checkpoint);
    }
    if (run_.evaluated_at == 0) text += validation_in_words(0) + '\n';
    if (run_.progress) print_to_console(text);
  }

  Wish end_step(StepRecord& record) override {
    mean_rate_ = mean_rate_ == 0.0 ? record.rate : 0.9 * mean_rate_ + 0.1 * record.rate;
    if (!run_.progress) return {};
    ProgressFigures figures{
        .step = record.step,
        .units = static_cast<double>(record.step * run_.sampler.global_batch() * units_per_sample(run_.config.model)),
        .loss = record.result.loss,
        .learning_rate = record.result.learning_rate,
        .gradient_norm = record.result.gradient_norm,
        .rate = mean_rate_,
        .memory = record.memory};
    if (const auto shares = run_.utilisation.at(mean_rate_)) figures.mfu = shares->palm;
    if (record.evaluation) {
      figures.validation = record.evaluation->loss;
      if (record.evaluation->accuracy || record.evaluation->choices || !record.evaluation->sources.empty())
        run_.progress->note(validation_in_words(record.step));
    }
    run_.progress->update(figures);
    return {};
  }

  void end_run(bool completed) override {
    if (!run_.progress) return;
    run_.progress->finish();
    if (!completed) return;
    const std::optional<double> least = entropy();
    const std::string floor = least ? fmt::format("; the corpus's entropy floor is {:.4f}", *least) : "";
    print_to_console(fmt::format("validation loss {:.4f} over {}{}{}\n", run_.evaluation->loss,
                                 counted(run_.evaluation->targets, "target"), other_figures_in_words(*run_.evaluation), floor));
  }

 private:
  std::string validation_in_words(Count step) const {
    return fmt::format("step {}: validation loss {:.4f}{}", step, run_.evaluation->loss,
                       other_figures_in_words(*run_.evaluation));
  }

  // Of the corpus, if it is known.
  std::optional<double> entropy() const {
    const auto& tokens = run_.data.tokens;
    return tokens && run_.data.sources.empty() && tokens->entropy() ? std::optional(tokens->entropy()->exact) : std::nullopt;
  }

  TrainingRun& run_;
  double mean_rate_ = 0.0;  // tokens per second, smoothed; without validations and saves
};

}  // namespace

std::unique_ptr<StepObserver> make_console(TrainingRun& run) { return std::make_unique<Console>(run); }

}  // namespace cohort
