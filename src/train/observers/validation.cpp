#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "train/choices.hpp"
#include "train/observers/observers.hpp"

namespace cohort {
namespace {

EvaluationContext evaluation_context(TrainingRun& run) {
  return EvaluationContext::of(run.train_step, run.mesh, run.data.token_bytes);
}

class Validation : public StepObserver {
 public:
  explicit Validation(TrainingRun& run) : run_(run) {
    const TrainSection& train = run.config.train;
    if (train.validation_choices.empty()) return;
    questions_ = open_choices(run.world, train.validation_choices, run.data.tokens->tokenizer(), run.config.model.context,
                              train.validation_questions);
  }

  void begin_run() override {
    if (run_.config.train.validate_at_start && run_.done == 0) validate(0);
  }

  Wish end_step(StepRecord& record) override {
    const TrainSection& train = run_.config.train;
    if (record.step != train.steps && (train.validate_every == 0 || record.step % train.validate_every != 0)) return {};
    record.evaluation = validate(record.step);
    return {};
  }

 private:
  Evaluation validate(Count step) {
    const auto scope = run_.timers.scope(Phase::validation);
    const TrainSection& train = run_.config.train;
    Evaluation evaluation = evaluate(evaluation_context(run_), run_.train_step.predictor(), *run_.data.dataset,
                                     run_.mesh.host_gradient(), train.micro_batch, train.validation_samples);
    if (!questions_.empty() && std::isfinite(evaluation.loss)) {  // else the guard says where the numbers end
      evaluation.choices = score_choices(evaluation_context(run_), run_.train_step.predictor(), questions_,
                                         train.validation_choices, run_.mesh.host_gradient());
    }
    run_.log->info("step {} validation loss {:.6f} over {}{}", step, evaluation.loss, counted(evaluation.targets, "target"),
                   other_figures_in_words(evaluation));
    run_.evaluation = evaluation;
    run_.evaluated_at = step;
    return evaluation;
  }

  TrainingRun& run_;
  std::vector<ChoiceQuestion> questions_;
};

class ValidationGuard : public StepObserver {
 public:
  explicit ValidationGuard(TrainingRun& run) : run_(run) {}

  void begin_run() override {
    if (run_.evaluated_at == 0) require(0);
  }

  Wish end_step(StepRecord& record) override {
    if (record.evaluation) require(record.step);
    return {};
  }

 private:
  void require(Count step) {
    const TrainSection& train = run_.config.train;
    require_finite(run_.world, fmt::format("step {}", step), *run_.evaluation, evaluation_context(run_),
                   run_.train_step.predictor(), *run_.data.dataset, run_.mesh.host_gradient(), train.micro_batch,
                   train.validation_samples);
  }

  TrainingRun& run_;
};

}  // namespace

std::unique_ptr<StepObserver> make_validation(TrainingRun& run) { return std::make_unique<Validation>(run); }
std::unique_ptr<StepObserver> make_validation_guard(TrainingRun& run) { return std::make_unique<ValidationGuard>(run); }

}  // namespace cohort
