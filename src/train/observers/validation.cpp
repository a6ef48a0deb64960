#include "base/text.hpp"
#include "train/observers/observers.hpp"

namespace cohort {
namespace {

EvaluationContext evaluation_context(TrainingRun& run) {
  TrainStep& step = run.train_step;
  return {step.exec(), step.strategy(), step.activations(), run.share, step.ring(), &run.mesh.host_axis(Axis::pp)};
}

class Validation : public StepObserver {
 public:
  explicit Validation(TrainingRun& run) : run_(run) {}

  Wish end_step(StepRecord& record) override {
    const TrainSection& train = run_.config.train;
    if (record.step != train.steps && (train.validate_every == 0 || record.step % train.validate_every != 0)) return {};
    const auto scope = run_.timers.scope(Phase::validation);
    const Evaluation evaluation = evaluate(evaluation_context(run_), run_.train_step.predictor(), *run_.data.dataset,
                                           run_.mesh.host_gradient(), train.micro_batch, train.validation_samples);
    run_.log->info("step {} validation loss {:.6f} over {}", record.step, evaluation.loss, counted(evaluation.targets, "target"));
    record.evaluation = run_.evaluation = evaluation;
    run_.evaluated_at = record.step;
    return {};
  }

 private:
  TrainingRun& run_;
};

class ValidationGuard : public StepObserver {
 public:
  explicit ValidationGuard(TrainingRun& run) : run_(run) {}

  Wish end_step(StepRecord& record) override {
    if (!record.evaluation) return {};
    const TrainSection& train = run_.config.train;
    require_finite(run_.world, fmt::format("step {}", record.step), *record.evaluation, evaluation_context(run_),
                   run_.train_step.predictor(), *run_.data.dataset, run_.mesh.host_gradient(), train.micro_batch,
                   train.validation_samples);
    return {};
  }

 private:
  TrainingRun& run_;
};

}  // namespace

std::unique_ptr<StepObserver> make_validation(TrainingRun& run) { return std::make_unique<Validation>(run); }
std::unique_ptr<StepObserver> make_validation_guard(TrainingRun& run) { return std::make_unique<ValidationGuard>(run); }

}  // namespace cohort
