#include "train/resume_run.hpp"

#include <cstdlib>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "checkpoint/format/format.hpp"
#include "checkpoint/load/collective.hpp"
#include "checkpoint/load/shards.hpp"
#include "checkpoint/store/set_aside.hpp"
#include "comm/consensus.hpp"
#include "config/describe.hpp"
#include "config/model_rules.hpp"
#include "train/data_record.hpp"
#include "train/resume.hpp"

namespace cohort {

namespace fs = std::filesystem;

namespace {

// Whether a checkpoint that could not be loaded is sound, and of another model. Throws SharedError(config) if that is so since
// the data is other data: a model without model.vocabulary has that of its data. // Collective over: world
bool is_of_another_model(TrainingRun& run, const fs::path& checkpoint) {
  TrainingState saved;
  try {
    saved = read_training_state_collectively(run.world, checkpoint);
  } catch (const SharedError&) {  // not even that can be read
    return false;
  }
  if (saved.model == describe_model(run.config.model)) return false;
  const std::vector<std::string> changes = data_changes(saved.data, run.data.description);
  if (changes.empty()) return true;
  throw SharedError(ExitCode::config,
                    fmt::format("{} is of other data, and of a model of another size ('{}', '{}' now); {}. Give the run its data "
                                "again (data.tokens), or start another run",
                                checkpoint.string(), saved.model, describe_model(run.config.model), join(changes, "; ")));
}

// On rank 0: what can be done about a damaged checkpoint, to be said behind what is wrong.
std::string ways_around(const TrainingRun& run, const fs::path& damaged) {
  if (run.world.rank() != 0) return "";
  std::vector<std::string> others;
  for (const StoredCheckpoint& checkpoint : list_checkpoints(run.config.run.directory)) {
    std::error_code error;
    if (!fs::equivalent(checkpoint.folder, damaged, error)) others.push_back(std::to_string(checkpoint.step));
  }
  if (others.empty()) return fmt::format("; {} has no other checkpoint", run.config.run.directory);
  return fmt::format(
      "; {} also has steps {}: name one with --resume-from STEP, or use the newest intact one with --set "
      "checkpoint.fallback=previous; later ones are then set aside, not deleted",
      run.config.run.directory, join(others));
}

// Its folder and state. // Collective over: world
std::pair<fs::path, TrainingState> load_first_sound(TrainingRun& run, const std::vector<fs::path>& checkpoints) {
  std::string first_failure;
  for (const fs::path& checkpoint : checkpoints) {
    try {
      return {checkpoint, load_shards(run.world, checkpoint, run.train_step.shards(), describe_model(run.config.model))};
    } catch (const SharedError& error) {
      if (error.code() != ExitCode::checkpoint || is_of_another_model(run, checkpoint)) throw;
      if (first_failure.empty()) first_failure = error.what();
      if (checkpoints.size() == 1) first_failure += ways_around(run, checkpoint);
      run.notes.push_back(
          fmt::format("{} cannot be loaded, so the run resumes from an earlier checkpoint (checkpoint.fallback = "
                      "\"previous\"): {}",
                      checkpoint.string(), error.what()));
    }
  }
  if (checkpoints.size() > 1)
    first_failure +=
        fmt::format("; {} before it cannot be loaded either", counted(static_cast<Count>(checkpoints.size()) - 1, "checkpoint"));
  throw SharedError(ExitCode::checkpoint, first_failure);
}

// On rank 0.
void set_aside_beyond_done(TrainingRun& run) {
  const fs::path folder = run.config.run.directory;
  const fs::path metrics = folder / "metrics.jsonl";
  const std::vector<StoredCheckpoint> stored = list_checkpoints(folder);
  const bool is_taken_back = !incomplete_beyond(folder, run.done).empty() || (!stored.empty() && stored.back().step > run.done);
  if (!is_taken_back) return;
  // First the records of the steps that are done again: they leave metrics.jsonl.
  if (fs::exists(metrics)) {
    const fs::path place = free_place_aside(folder, fmt::format("metrics_beyond_{}.jsonl", step_name(run.done)));
    write_file_atomically(place, read_file(metrics));
  }
  std::vector<std::string> places;
  for (const fs::path& place : set_aside_beyond(folder, run.done)) places.push_back(place.string());
  run.notes.push_back(
      fmt::format("the run is taken back to step {}: later checkpoints are set aside, as {}", run.done, join(places)));
}

}  // namespace

void resume_run(TrainingRun& run, const TrainerOptions& options) {
  const auto [checkpoint, saved] = load_first_sound(run, options.resume_from);
  run.train_step.shards_changed();
  run.train_step.restore_loss_scale(std::strtod(saved.loss_scale.c_str(), nullptr), saved.loss_scale_good_steps);
  run.done = saved.step;
  run.history = saved.history;
  run.saved_at = run.done;
  if (const std::string kept = keep_schedule(saved, run.config); !kept.empty()) run.notes.push_back(kept);
  const std::vector<std::string> changes = changes_since(saved, run.config, run.data.description);
  if (!changes.empty() && !options.allow_changes) {
    throw SharedError(ExitCode::config,
                      fmt::format("{} was trained with other settings; {}. Undo the changes, or accept them with --allow-changes",
                                  checkpoint.string(), join(changes, "; ")));
  }
  if (run.done >= run.config.train.steps) {
    throw SharedError(ExitCode::config,
                      fmt::format("{} has done {} and train.steps = {}: nothing is left to do; raise train.steps",
                                  checkpoint.string(), counted(run.done, "step"), run.config.train.steps));
  }
  if (run.data.tokens && tokenizer_of_record(saved.data).empty())
    run.say("note: the checkpoint predates records of tokenizers: tokens were compared, but not what they stand for");
  for (const std::string& change : changes) {
    run.say("accepted change: " + change);
    run.history += fmt::format("from step {}: {}\n", run.done + 1, change);
  }
}

void set_aside_later_steps(TrainingRun& run) {
  fail_together(run.world, "setting later checkpoints aside", [&] {
    if (run.world.rank() == 0) set_aside_beyond_done(run);
  });
}

}  // namespace cohort
