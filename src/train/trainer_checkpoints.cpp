// Trainer's dealings with checkpoints: going on from one, and saving.
#include <cstdlib>
#include <utility>

#include "base/text.hpp"
#include "checkpoint/shards.hpp"
#include "config/describe.hpp"
#include "observe/clock.hpp"
#include "train/resume.hpp"
#include "train/trainer.hpp"

namespace cohort {

void Trainer::resume(const TrainerOptions& options) {
  const TrainingState saved = load_shards(world_, *options.resume_from, trainee_.shards(), describe_model(config_.model));
  trainee_.shards_changed();
  trainee_.restore_loss_scale(std::strtod(saved.loss_scale.c_str(), nullptr), saved.loss_scale_good_steps);
  done_ = saved.step;
  history_ = saved.history;
  saved_at_ = done_;
  const std::vector<std::string> changes = changes_since(saved, config_, data_.description);
  if (!changes.empty() && !options.allow_changes) {
    throw SharedError(ExitCode::config,
                      fmt::format("{} was trained otherwise; {}. Undo the changes, or accept them with --allow-changes",
                                  options.resume_from->string(), join(changes, "; ")));
  }
  if (done_ >= config_.train.steps) {
    throw SharedError(ExitCode::config,
                      fmt::format("{} has done {} steps and train.steps = {}: nothing is left to do; raise train.steps",
                                  options.resume_from->string(), done_, config_.train.steps));
  }
  for (const std::string& change : changes) {
    say("accepted change: " + change);
    history_ += fmt::format("from step {} on: {}\n", done_ + 1, change);
  }
}

TrainingState Trainer::state() const {
  TrainingState state;
  state.step = done_;
  state.samples_seen = done_ * sampler_.global_batch();
  state.tokens_seen = state.samples_seen * (config_.model.kind == "mlp" ? 1 : config_.model.context);
  state.seed = config_.run.seed;
  state.model = describe_model(config_.model);
  state.data = data_.description;
  state.run_file = to_toml(config_);
  state.cohort_version = cohort_version_;
  state.git_revision = git_revision_;
  state.loss_scale = fmt::format("{}", trainee_.loss_scale().scale());
  state.loss_scale_good_steps = trainee_.loss_scale().good_steps();
  if (evaluated_at_ == done_) state.validation_loss = fmt::format("{}", last_evaluation_->loss);
  state.history = history_;
  state.ranks = world_.size();
  state.layout = mesh_.shape().str();
  return state;
}

void Trainer::save() {
  const auto scope = timers_.scope(Phase::checkpoint);
  if (faults_) faults_->begin_save();
  const double begin = steady_seconds();
  report_saved();  // of the one before, which is waited for
  const double waited = steady_seconds() - begin;
  constexpr double kWorthTelling = 0.1;  // seconds
  if (waited > kWorthTelling) {
    say(fmt::format("step {}: waited {:.2f} s for the checkpoint before: the disk is slower than checkpoint.every", done_,
                    waited));
  }
  if (all_reduce_value(world_, lock_lost(), ReduceOp::max) > 0) lock_->fail_lost();
  if (std::exchange(save_asked_, false)) answering_ = done_;
  saver_->save(trainee_.shards(), state());
  saved_at_ = done_;
  if (!config_.checkpoint.async) report_saved();
}

void Trainer::report_saved() {
  const auto scope = timers_.scope(Phase::checkpoint);  // rank 0 removes old checkpoints here
  const std::optional<CheckpointSaver::Report> report = saver_->finish();
  if (!report) return;
  const Saved& saved = report->saved;
  const std::string times = config_.checkpoint.async
                                ? fmt::format(" in {:.2f} s, of which training waited {:.2f} s", report->seconds, report->stall)
                                : fmt::format(" in {:.2f} s", report->seconds);
  log_->info("step {} saved {}{}", saved.step, saved.folder.string(), times);
  say(fmt::format("step {}: saved {} ({}{})", saved.step, saved.folder.string(), human_bytes(saved.bytes), times));
  if (answering_ == saved.step) {
    answer_save();
    answering_ = -1;
  }
  if (!saved.trouble.empty()) say(fmt::format("warning: step {} is saved, but: {}", saved.step, saved.trouble));
}

void Trainer::answer_save() {
  if (!requests_.save_done()) say("warning: the file save in the run folder, which asked for a checkpoint, cannot be removed");
}

void Trainer::answer_if_saved() {
  if (saved_at_ == done_) answer_save();
}

void Trainer::save_if_due() {
  const Count every = config_.checkpoint.every;
  const bool last = done_ == config_.train.steps && config_.checkpoint.at_end;
  if (!last && !(every > 0 && done_ % every == 0) && !save_asked_) return;
  save();
}

}  // namespace cohort
