#include "train/observers/checkpoints.hpp"

#include <utility>

#include "base/text.hpp"
#include "comm/consensus.hpp"
#include "observe/clock.hpp"
#include "train/save_options_of.hpp"

namespace cohort {

Checkpoints::Checkpoints(TrainingRun& run, std::function<void(Count)> saved)
    : run_(run),
      saved_(std::move(saved)),
      saver_(run.world, run.config.run.directory, save_options_of(run.config.checkpoint), run.config.checkpoint.async) {
  saver_.reserve(run.train_step.shards());
}

std::vector<std::int64_t> Checkpoints::votes() { return {saver_.has_news() ? 1 : 0, lock_lost()}; }

Wish Checkpoints::heard(std::span<const std::int64_t> sums) {
  if (sums[1] > 0) run_.lock->fail_lost();
  if (sums[0] > 0) report();
  return {};
}

Wish Checkpoints::end_step(StepRecord& record) {
  const Count every = run_.config.checkpoint.every;
  const bool last = record.step == run_.config.train.steps && run_.config.checkpoint.at_end;
  return {.save = last || (every > 0 && record.step % every == 0)};
}

void Checkpoints::save() {
  const double begin = steady_seconds();
  report();  // of the one before, which is waited for
  const double waited = steady_seconds() - begin;
  constexpr double kWorthTelling = 0.1;  // seconds
  if (waited > kWorthTelling) {
    run_.say(fmt::format("step {}: waited {:.2f} s for the previous checkpoint: the disk cannot keep up with checkpoint.every",
                         run_.done, waited));
  }
  if (all_reduce_value(run_.world, lock_lost(), ReduceOp::max) > 0) run_.lock->fail_lost();
  saver_.save(run_.train_step.shards(), run_.state());
  run_.saved_at = run_.done;
  if (!run_.config.checkpoint.async) report();
}

void Checkpoints::report() {
  const auto scope = run_.timers.scope(Phase::checkpoint);  // rank 0 removes old checkpoints here
  const std::optional<CheckpointSaver::Report> report = saver_.finish();
  if (!report) return;
  const Saved& saved = report->saved;
  const std::string times = run_.config.checkpoint.async
                                ? fmt::format(" in {:.2f} s, of which training waited {:.2f} s", report->seconds, report->stall)
                                : fmt::format(" in {:.2f} s", report->seconds);
  run_.log->info("step {} saved {}{}", saved.step, saved.folder.string(), times);
  run_.say(fmt::format("step {}: saved {} ({}{})", saved.step, saved.folder.string(), human_bytes(saved.bytes), times));
  saved_(saved.step);
  if (!saved.trouble.empty()) run_.say(fmt::format("warning: step {} was saved, but: {}", saved.step, saved.trouble));
}

}  // namespace cohort
