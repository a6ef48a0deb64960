// The training loop of one rank: data, steps, validation, checkpoints, logs, and the end, be it the last step or a signal.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/training_state.hpp"
#include "mesh/mesh.hpp"
#include "observe/log.hpp"
#include "observe/metrics.hpp"
#include "observe/progress.hpp"
#include "observe/timers.hpp"
#include "train/data_setup.hpp"
#include "train/evaluate.hpp"
#include "train/step_batches.hpp"
#include "train/trainee.hpp"

namespace cohort {

struct TrainerOptions {
  std::optional<std::filesystem::path> resume_from;  // a checkpoint
  bool allow_changes = false;                        // go on although keys that bind the run have changed
  std::string cohort_version, git_revision;          // recorded in checkpoints
};

class Trainer {
 public:
  /// `config` is validated, its vocabulary known, its run folder prepared. // Collective over: world
  Trainer(const RunConfig& config, const RunData& data, Communicator& world, const TrainerOptions& options);
  ~Trainer();

  /// Trains to the last step or until a signal. Returns ExitCode::success or ExitCode::interrupted. // Collective over: world
  ExitCode run();

 private:
  void resume(const TrainerOptions& options);
  void greet();
  // Valid targets of the global batch, or nothing if any rank was asked to stop: one exchange settles both.
  std::optional<Count> begin_step();
  void end_step(const StepResult& result);
  void log_step(const StepResult& result);
  void write_metrics(const StepResult& result, const std::optional<Evaluation>& evaluation);
  std::optional<Evaluation> validate_if_due();
  void save();
  void save_if_due();
  void finish();
  void show_sample();
  void say(const std::string& text);
  TrainingState state() const;

  const RunConfig& config_;
  const RunData& data_;
  Communicator& world_;
  Mesh mesh_;
  std::string cohort_version_, git_revision_;
  Trainee trainee_;
  Sampler sampler_;
  StepBatches batches_;
  StepTimers timers_;
  Count done_ = 0;          // optimizer steps
  Count saved_at_ = -1;     // done_ of the last checkpoint
  double mean_rate_ = 0.0;  // tokens per second, smoothed
  std::optional<Evaluation> last_evaluation_;
  std::unique_ptr<RankLog> log_;
  std::unique_ptr<MetricsWriter> metrics_;  // rank 0
  std::unique_ptr<ProgressLine> progress_;  // rank 0
};

}  // namespace cohort
