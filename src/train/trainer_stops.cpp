// What keeps a training from its last step: errors, steps that are not finite, requests to stop (and to save), and the faults of
// [fault].
#include <cmath>

#include "comm/agreement.hpp"
#include "config/fault.hpp"
#include "runtime/signals.hpp"
#include "train/lose_device.hpp"
#include "train/nonfinite.hpp"
#include "train/trainer.hpp"

namespace cohort {

void Trainer::prepare_faults(const std::vector<FaultSection>& faults) {
  for (const FaultSection& fault : faults) {
    if (!has_been(fault, config_.run.directory)) say("fault: " + describe_fault(fault));
  }
  faults_ = std::make_unique<FaultInjector>(faults, world_.rank(), config_.run.directory, *log_, lose_device);
  if (faults_->empty()) {
    faults_.reset();
  } else {
    timers_.on_entry([this](Phase phase) { faults_->enter(phase); });
  }
}

ExitCode Trainer::run() {
  try {
    return train();
  } catch (const SharedError&) {
    throw;
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("in step {}: {}", running_, error.what()));
  }
}

void Trainer::judge_skip(const StepResult& result) {
  const bool overflow_alone = trainee_.loss_scale().active() && std::isfinite(result.loss);
  if (overflow_alone && !result.at_floor) {  // what dynamic loss scaling is made for
    log_->info("step {}: gradients overflowed; the step was skipped, the loss scale is now {}", done_ + 1,
               trainee_.loss_scale().scale());
    return;
  }
  const std::string what = fmt::format("step {}: loss {}, gradient norm {}, learning rate {:.3g}; {}", done_ + 1, result.loss,
                                       result.gradient_norm, result.learning_rate, where_not_finite());
  // A loss that is no number may be of one bad batch, whatever the loss scale.
  if (overflow_alone)
    throw SharedError(ExitCode::training, fmt::format("{}: {}", what, trainee_.loss_scale().at_minimum_in_words()));
  if (config_.train.on_nonfinite == "skip" && skips_ < config_.train.max_skips) {
    log_->info("{}; the step was skipped", what);
    say(what + "; the step was skipped (train.on_nonfinite = \"skip\")");
    return;
  }
  throw SharedError(
      ExitCode::training,
      fmt::format("{}: training has diverged{}; lower optimizer.learning_rate, lengthen schedule.warmup_steps{}, and "
                  "go on from the last checkpoint with --resume",
                  what,
                  skips_ == 0   ? ""
                  : skips_ == 1 ? " (the step before was skipped)"
                                : fmt::format(" ({} steps in a row were skipped)", skips_),
                  config_.train.clip_norm > 0.0 ? " or lower train.clip_norm" : ", set train.clip_norm"));
}

std::string Trainer::where_not_finite() {
  // The weights are still those of the step, so running it again shows where it began; the batch may have gone on to the next
  // step.
  batches_.load(done_);
  const std::string own = trainee_.first_unit_not_finite(batches_.inputs());
  const std::string where = first_not_finite_in_words(world_, own);
  if (done_ + 1 < config_.train.steps) batches_.load(done_ + 1);
  if (!where.empty()) return where;
  // Backward begins at the loss, whose parameters are the last rank's where ranks have different ones.
  const std::string gradient = trainee_.gradient_not_finite();
  const int last = all_reduce_value(world_, gradient.empty() ? -1 : world_.rank(), ReduceOp::max);
  if (last < 0) return "all layers' outputs and gradients are finite: the loss, or the gradients' norm, overflowed";
  return fmt::format("all layers' outputs are finite; going backward, the first gradient that is not is that of {}",
                     broadcast_text(world_, gradient, last));
}

bool Trainer::take_requests(std::span<const std::int64_t> requests) {
  const auto asked = [&](RunRequest request) { return requests[static_cast<std::size_t>(request)] > 0; };
  // A save that is asked for before the first step waits for the end of that step.
  save_asked_ = save_asked_ || asked(RunRequest::save);
  stop_file_ = asked(RunRequest::stop_by_file);
  return stop_file_ || asked(RunRequest::stop_by_signal);
}

ExitCode Trainer::stop() {
  const int signal = all_reduce_value(world_, static_cast<std::int32_t>(stop_signal()), ReduceOp::max);
  const std::string stop_file = config_.run.directory + "/stop";
  const std::string why = stop_file_ ? fmt::format("{} is there; to go on, remove it and start with --resume-if-any", stop_file)
                                     : std::string(signal_name(signal));
  say(fmt::format("stopping after step {}: {}", done_, why));
  log_->info("stopping after step {}: {}", done_, why);
  if (done_ > 0 && saved_at_ != done_) save();
  report_saved();
  answer_if_saved();
  if (done_ == 0) say("nothing was saved: no step was done; start again with the same command");
  if (progress_) progress_->finish();
  // A launcher may end the job as soon as one rank exits with a code other than 0: not before rank 0 has saved.
  world_.barrier();
  return stop_file_ ? ExitCode::stopped : ExitCode::interrupted;
}

std::string Trainer::job_in_words() const {
  if (launcher_.job_id.empty()) return "";
  const std::string array =
      launcher_.array_job_id.empty() ? "" : fmt::format(" ({}_{})", launcher_.array_job_id, launcher_.array_task_id);
  return fmt::format("SLURM job {}{}, restart {}", launcher_.job_id, array, launcher_.restart_count);
}

}  // namespace cohort
