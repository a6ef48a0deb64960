#include <cmath>

#include "comm/consensus.hpp"
#include "train/nonfinite.hpp"
#include "train/observers/observers.hpp"

namespace cohort {
namespace {

class NonfiniteGuard : public StepObserver {
 public:
  explicit NonfiniteGuard(TrainingRun& run) : run_(run) {}

  Wish end_step(StepRecord& record) override {
    if (record.result.skipped) decide(record);
    skips_ = record.result.skipped ? skips_ + 1 : 0;
    return {};
  }

 private:
  // Goes on if the skip is as it should be, else throws SharedError(training).
  void decide(const StepRecord& record) {
    const StepResult& result = record.result;
    const LossScale& loss_scale = run_.train_step.loss_scale();
    const bool overflow_alone = loss_scale.active() && std::isfinite(result.loss);
    if (overflow_alone && !result.at_floor) {  // what dynamic loss scaling is made for
      run_.log->info("step {}: gradients overflowed; the step was skipped, the loss scale is now {}", record.step,
                     loss_scale.scale());
      return;
    }
    const std::string what = fmt::format("step {}: loss {}, gradient norm {}, learning rate {:.3g}; {}", record.step, result.loss,
                                         result.gradient_norm, result.learning_rate, where(record.step));
    // A loss that is no number may be of one bad batch, whatever the loss scale.
    if (overflow_alone) throw SharedError(ExitCode::training, fmt::format("{}: {}", what, loss_scale.at_minimum_in_words()));
    const TrainSection& train = run_.config.train;
    if (train.on_nonfinite == "skip" && skips_ < train.max_skips) {
      run_.log->info("{}; the step was skipped", what);
      run_.say(what + "; the step was skipped (train.on_nonfinite = \"skip\")");
      return;
    }
    throw SharedError(
        ExitCode::training,
        fmt::format("{}: training has diverged{}; lower optimizer.learning_rate, lengthen schedule.warmup_steps{}, and "
                    "resume from the last checkpoint with --resume",
                    what,
                    skips_ == 0   ? ""
                    : skips_ == 1 ? " (the step before was skipped)"
                                  : fmt::format(" ({} steps in a row were skipped)", skips_),
                    train.clip_norm > 0.0 ? " or lower train.clip_norm" : ", set train.clip_norm"));
  }

  // Rank and first unit of the model whose output is not finite, in words. // Collective over: world
  std::string where(Count step) {
    // The weights are still those of the step, so running it again shows where it began; the batch may have gone on to the next
    // step.
    run_.batches.load(step - 1);
    const std::string own = run_.train_step.first_unit_not_finite(run_.batches.inputs());
    std::string output = first_not_finite_in_words(run_.world, own);
    if (step < run_.config.train.steps) run_.batches.load(step);
    if (!output.empty()) return output;
    // Backward begins at the loss, whose parameters are the last rank's where ranks have different ones.
    const std::string gradient = run_.train_step.gradient_not_finite();
    const int last = all_reduce_value(run_.world, gradient.empty() ? -1 : run_.world.rank(), ReduceOp::max);
    if (last < 0) return "all layers' outputs and gradients are finite: the loss, or the gradients' norm, overflowed";
    return fmt::format("all layers' outputs are finite; going backward, the first non-finite gradient is that of {}",
                       broadcast_text(run_.world, gradient, last));
  }

  TrainingRun& run_;
  Count skips_ = 0;  // steps in a row that were skipped
};

}  // namespace

std::unique_ptr<StepObserver> make_nonfinite_guard(TrainingRun& run) { return std::make_unique<NonfiniteGuard>(run); }

}  // namespace cohort
