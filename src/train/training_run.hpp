// A training while it runs: what its loop, its start and the observers of its steps share.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/trace_range.hpp"
#include "mesh/mesh.hpp"
#include "observe/log.hpp"
#include "observe/progress.hpp"
#include "observe/tensorboard/tensorboard_writer.hpp"
#include "observe/timers.hpp"
#include "rundir/run_lock.hpp"
#include "runtime/launcher.hpp"
#include "train/data_setup.hpp"
#include "train/evaluate.hpp"
#include "train/step_batches.hpp"
#include "train/train_step.hpp"
#include "train/utilisation.hpp"

namespace cohort {

struct TrainerOptions {
  std::vector<std::filesystem::path> resume_from;  // checkpoints: the first that is sound; none: a fresh start
  bool allow_changes = false;                      // resume although keys that bind the run have changed
  std::string cohort_version, git_revision;        // recorded in checkpoints
  std::vector<FaultSection> faults;                // what goes wrong on purpose, see faults_of()
  std::optional<TraceRange> trace;                 // steps whose trace is written
  const RunLock* lock = nullptr;                   // held by the caller; null: nobody else can be there
  LauncherFacts launcher;                          // the job, for logs and metrics
};

struct TrainingRun {
  /// Builds model, optimizer and batches; begins at step 1, with initial values. // Collective over: world
  TrainingRun(const RunConfig& config, const RunData& data, Communicator& world, const TrainerOptions& options);

  /// Opens this rank's log and on rank 0 the console, and writes the resolved run file. `resumed`: what is there is kept.
  // Collective over: world
  void open_logs(bool resumed);

  /// The steps that log.every asks for, the first and the last.
  bool is_reported(Count step) const { return step == 1 || step % config.log.every == 0 || step == config.train.steps; }
  /// A line on the console, from rank 0.
  void say(const std::string& text);
  /// "SLURM job 12 (10_2), restart 1"; "" outside of SLURM.
  std::string job_in_words() const;
  /// What a checkpoint says of the run as it is now.
  TrainingState state() const;

  RunConfig config;  // the caller's; but a resumed run keeps its schedule
  const RunData& data;
  Communicator& world;
  const std::string cohort_version, git_revision;
  const LauncherFacts launcher;
  const RunLock* const lock;
  Mesh mesh;
  TrainStep train_step;
  Sampler sampler;
  BatchShare share;
  StepBatches batches;
  StepTimers timers;
  Utilisation utilisation;

  Count done = 0;                        // optimizer steps
  Count saved_at = -1;                   // `done` of the last checkpoint
  std::optional<Evaluation> evaluation;  // the last one
  Count evaluated_at = -1;               // `done` of it
  std::vector<std::string> notes;        // of resuming, for console and log
  std::string history;                   // what resumes were allowed to change

  std::unique_ptr<RankLog> log;                    // from open_logs() on, and so:
  std::unique_ptr<ProgressTable> progress;         // rank 0
  std::unique_ptr<TensorBoardWriter> tensorboard;  // rank 0, if observe.tensorboard
};

}  // namespace cohort
