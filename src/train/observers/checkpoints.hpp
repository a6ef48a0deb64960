// Checkpoints while a run trains: every checkpoint.every steps and at the end, in the background if checkpoint.async, and never
// in a folder that another job has taken over.
#pragma once

#include <functional>

#include "checkpoint/write/saver.hpp"
#include "train/step_observer.hpp"
#include "train/training_run.hpp"

namespace cohort {

class Checkpoints : public StepObserver {
 public:
  /// `saved` is called when a checkpoint is on disk, with its step. Throws Error(config) if [checkpoint] asks for what cannot be
  /// had here. // Collective over: world
  Checkpoints(TrainingRun& run, std::function<void(Count)> saved);

  std::vector<std::int64_t> votes() override;
  Wish heard(std::span<const std::int64_t> sums) override;
  Wish end_step(StepRecord& record) override;

  /// Saves the state as it is, after waiting for the save before. Throws SharedError(launch) instead if the run folder is another
  /// job's now. // Collective over: world
  void save();
  /// Tells of a save that has ended, after waiting for it, or throws its error. // Collective over: world
  void report();

 private:
  // 1 if this rank knows that the run folder is another job's now, else 0; to be added up over ranks.
  std::int64_t lock_lost() const { return run_.lock != nullptr && run_.lock->is_lost() ? 1 : 0; }

  TrainingRun& run_;
  std::function<void(Count)> saved_;
  CheckpointSaver saver_;
};

}  // namespace cohort
