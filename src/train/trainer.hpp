// The training loop of one rank: batches and steps, from the first, or a checkpoint, to the last, or a wish to stop. All that is
// done about a step, from its log line to its checkpoint, observers do (step_observer.hpp).
#pragma once

#include "train/observers/checkpoints.hpp"
#include "train/step_observer.hpp"
#include "train/training_run.hpp"

namespace cohort {

class Trainer {
 public:
  /// `config` is validated, its vocabulary known, its run folder prepared. // Collective over: world
  Trainer(const RunConfig& config, const RunData& data, Communicator& world, const TrainerOptions& options);
  ~Trainer();

  /// Trains to the last step, or until a signal or RUN/stop. Returns ExitCode::success, interrupted or stopped. An error of one
  /// rank is thrown there, with the step. // Collective over: world
  ExitCode run();

 private:
  ExitCode train();
  // Reads the batch of step `step`, 0 the first; one exchange tells its valid targets over all ranks and what observers hear.
  Count load(Count step);
  void start_step(Count global_targets);
  void end_step(const StepResult& result);
  void take(Wish wish);
  void save();
  ExitCode stop();

  TrainingRun run_;
  Observers observers_;
  Checkpoints* checkpoints_ = nullptr;  // one of them
  Wish wish_;                           // of all of them, not yet granted
  Count running_ = 0;                   // the step that is under way, 1 the first
};

}  // namespace cohort
