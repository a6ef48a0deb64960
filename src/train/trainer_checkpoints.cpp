// Trainer's dealings with checkpoints: going on from one, and saving.
#include <cstdlib>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "checkpoint/collective.hpp"
#include "checkpoint/format.hpp"
#include "checkpoint/set_aside.hpp"
#include "checkpoint/shards.hpp"
#include "config/describe.hpp"
#include "config/model_rules.hpp"
#include "observe/clock.hpp"
#include "train/data_record.hpp"
#include "train/resume.hpp"
#include "train/trainer.hpp"

namespace cohort {

namespace fs = std::filesystem;

std::pair<fs::path, TrainingState> Trainer::load_first_sound(const std::vector<fs::path>& checkpoints) {
  std::string first_failure;
  for (const fs::path& checkpoint : checkpoints) {
    try {
      return {checkpoint, load_shards(world_, checkpoint, trainee_.shards(), describe_model(config_.model))};
    } catch (const SharedError& error) {
      if (error.code() != ExitCode::checkpoint || is_of_another_model(checkpoint)) throw;
      if (first_failure.empty()) first_failure = error.what();
      if (checkpoints.size() == 1) first_failure += ways_around(checkpoint);
      notes_.push_back(
          fmt::format("{} cannot be loaded, so the run goes on from an earlier checkpoint (checkpoint.fallback = "
                      "\"previous\"): {}",
                      checkpoint.string(), error.what()));
    }
  }
  if (checkpoints.size() > 1)
    first_failure += fmt::format("; none of the {} checkpoints before it can be loaded", checkpoints.size() - 1);
  throw SharedError(ExitCode::checkpoint, first_failure);
}

bool Trainer::is_of_another_model(const fs::path& checkpoint) {
  try {
    return read_training_state_collectively(world_, checkpoint).model != describe_model(config_.model);
  } catch (const SharedError&) {  // not even that can be read
    return false;
  }
}

std::string Trainer::ways_around(const fs::path& damaged) const {
  if (world_.rank() != 0) return "";
  std::vector<std::string> others;
  for (const StoredCheckpoint& checkpoint : list_checkpoints(config_.run.directory)) {
    std::error_code error;
    if (!fs::equivalent(checkpoint.folder, damaged, error)) others.push_back(std::to_string(checkpoint.step));
  }
  if (others.empty()) return fmt::format("; {} has no other checkpoint", config_.run.directory);
  return fmt::format(
      "; {} has steps {} besides: name one with --resume-from STEP, or let the newest that is sound be taken with "
      "--set checkpoint.fallback=previous; later ones are then set aside, not deleted",
      config_.run.directory, join(others));
}

void Trainer::set_aside_later_steps() {
  const fs::path run = config_.run.directory;
  const fs::path metrics = run / "metrics.jsonl";
  const std::vector<StoredCheckpoint> stored = list_checkpoints(run);
  const bool is_taken_back = !incomplete_beyond(run, done_).empty() || (!stored.empty() && stored.back().step > done_);
  if (!is_taken_back) return;
  // First the records of the steps that are done again: they leave metrics.jsonl.
  if (fs::exists(metrics)) {
    const fs::path place = free_place_aside(run, fmt::format("metrics_beyond_{}.jsonl", step_name(done_)));
    write_file_atomically(place, read_file(metrics));
  }
  std::vector<std::string> places;
  for (const fs::path& place : set_aside_beyond(run, done_)) places.push_back(place.string());
  notes_.push_back(fmt::format("the run is taken back to step {}: later checkpoints are set aside, as {}", done_, join(places)));
}

void Trainer::resume(const TrainerOptions& options) {
  const auto [checkpoint, saved] = load_first_sound(options.resume_from);
  trainee_.shards_changed();
  trainee_.restore_loss_scale(std::strtod(saved.loss_scale.c_str(), nullptr), saved.loss_scale_good_steps);
  done_ = saved.step;
  history_ = saved.history;
  saved_at_ = done_;
  if (const std::string kept = keep_schedule(saved, config_); !kept.empty()) notes_.push_back(kept);
  const std::vector<std::string> changes = changes_since(saved, config_, data_.description);
  if (!changes.empty() && !options.allow_changes) {
    throw SharedError(ExitCode::config,
                      fmt::format("{} was trained otherwise; {}. Undo the changes, or accept them with --allow-changes",
                                  checkpoint.string(), join(changes, "; ")));
  }
  if (done_ >= config_.train.steps) {
    throw SharedError(ExitCode::config,
                      fmt::format("{} has done {} steps and train.steps = {}: nothing is left to do; raise train.steps",
                                  checkpoint.string(), done_, config_.train.steps));
  }
  if (data_.tokens && tokenizer_of_record(saved.data).empty())
    say("note: the checkpoint is older than records of tokenizers: the tokens were compared, what they stand for was not");
  for (const std::string& change : changes) {
    say("accepted change: " + change);
    history_ += fmt::format("from step {} on: {}\n", done_ + 1, change);
  }
}

TrainingState Trainer::state() const {
  TrainingState state;
  state.step = done_;
  state.samples_seen = done_ * sampler_.global_batch();
  state.tokens_seen = state.samples_seen * units_per_sample(config_.model);
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
