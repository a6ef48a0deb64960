// The training loop of one rank: data, steps, validation, checkpoints, logs, and the end, be it the last step or a signal.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/saver.hpp"
#include "mesh/mesh.hpp"
#include "observe/log.hpp"
#include "observe/metrics.hpp"
#include "observe/progress.hpp"
#include "observe/stragglers.hpp"
#include "observe/timers.hpp"
#include "runtime/launcher.hpp"
#include "train/data_setup.hpp"
#include "train/evaluate.hpp"
#include "train/fault.hpp"
#include "train/gpu_metrics.hpp"
#include "train/requests.hpp"
#include "train/run_lock.hpp"
#include "train/step_batches.hpp"
#include "train/trainee.hpp"

namespace cohort {

struct TrainerOptions {
  std::optional<std::filesystem::path> resume_from;  // a checkpoint
  bool allow_changes = false;                        // go on although keys that bind the run have changed
  std::string cohort_version, git_revision;          // recorded in checkpoints
  std::vector<FaultSection> faults;                  // what goes wrong on purpose, see faults_of()
  const RunLock* lock = nullptr;                     // held by the caller; null: nobody else can be there
  LauncherFacts launcher;                            // the job, for logs and metrics
};

class Trainer {
 public:
  /// `config` is validated, its vocabulary known, its run folder prepared. // Collective over: world
  Trainer(const RunConfig& config, const RunData& data, Communicator& world, const TrainerOptions& options);
  ~Trainer();

  /// Trains to the last step, or until a signal or RUN/stop. Returns ExitCode::success, interrupted or stopped. An error of one
  /// rank is thrown there, with the step. // Collective over: world
  ExitCode run();

 private:
  void resume(const TrainerOptions& options);
  void greet();
  // Reads a step's batch: its valid targets over all ranks, or nothing if any rank was asked to stop; one exchange settles both.
  std::optional<Count> load_step(Count step);
  // What all ranks were asked for, added up. True if it is to stop.
  bool take_requests(std::span<const std::int64_t> requests);
  // 1 if this rank knows that the run folder is another job's now, else 0; to be added up over ranks.
  std::int64_t lock_lost() const { return lock_ != nullptr && lock_->is_lost() ? 1 : 0; }
  ExitCode stop();
  ExitCode train();
  void prepare_faults(const std::vector<FaultSection>& faults);
  // "SLURM job 12 (10_2), restart 1"; "" outside of SLURM.
  std::string job_in_words() const;
  void end_step(const StepResult& result);
  // The step was skipped: goes on if that is as it should be, else throws SharedError(training).
  void judge_skip(const StepResult& result);
  // Rank and first unit of the model whose output is not finite, in words. // Collective over: world
  std::string where_not_finite();
  // The steps that log.every asks for, the first and the last.
  bool is_reported(Count step) const;
  void log_step(const StepResult& result);
  void watch_for_stragglers();
  // At reported steps: whether some ranks are slower than others. // Collective over: world
  std::optional<Stragglers::Comparison> compare_work();
  // On a GPU, after the first step: what its memory is used for.
  void log_memory_once();
  // On a GPU, at reported steps: what was sampled since the last one; null on other ranks than 0, and if nothing is known.
  // Collective over: world
  nlohmann::ordered_json collect_gpu_metrics();
  // `rate`: tokens per second of the step itself.
  void write_metrics(const StepResult& result, double rate, const std::optional<Stragglers::Comparison>& work,
                     const std::optional<Evaluation>& evaluation);
  std::optional<Evaluation> validate_if_due();
  EvaluationContext evaluation_context();
  // Throws SharedError(training) unless the validation loss is a number. // Collective over: world
  void require_finite_validation(const Evaluation& evaluation);
  // Throws SharedError(launch) instead if the run folder is another job's now. // Collective over: world
  void save();
  // Tells of a save that has come to its end, or throws its error. // Collective over: world
  void report_saved();
  void save_if_due();
  // RUN/save has what it asks for: removes it.
  void answer_save();
  // The same at the end of the run, however late the file came, if the state of the end is on disk.
  void answer_if_saved();
  void finish();
  void show_sample();
  void say(const std::string& text);
  TrainingState state() const;

  const RunConfig& config_;
  const RunData& data_;
  Communicator& world_;
  Mesh mesh_;
  std::string cohort_version_, git_revision_;
  LauncherFacts launcher_;
  const RunLock* lock_;
  Requests requests_;
  Trainee trainee_;
  Sampler sampler_;
  BatchShare share_;
  StepBatches batches_;
  StepTimers timers_;
  std::vector<Count> samples_;   // of the step that was started last
  Count done_ = 0;               // optimizer steps
  Count running_ = 0;            // the step that is under way, 1 the first
  Count saved_at_ = -1;          // done_ of the last checkpoint
  std::string history_;          // what resumes were allowed to change
  Count skips_ = 0;              // steps in a row that were skipped
  double mean_rate_ = 0.0;       // tokens per second, smoothed; without validations and saves
  bool save_asked_ = false;      // by RUN/save
  Count answering_ = -1;         // done_ of the save that answers RUN/save, until it is complete
  bool stop_file_ = false;       // RUN/stop asked for the end
  bool is_first_record_ = true;  // of the metrics since this start
  std::optional<Evaluation> last_evaluation_;
  Count evaluated_at_ = -1;                 // done_ of it
  std::unique_ptr<Stragglers> stragglers_;  // none if there is but one rank
  std::unique_ptr<CheckpointSaver> saver_;
  std::unique_ptr<RankLog> log_;
  std::unique_ptr<GpuMetrics> gpu_metrics_;  // on a GPU
  bool memory_logged_ = false;               // after the first step
  bool gpu_silence_logged_ = false;          // that there are no figures of GPUs
  std::unique_ptr<MetricsWriter> metrics_;   // rank 0
  std::unique_ptr<ProgressLine> progress_;   // rank 0
  std::unique_ptr<FaultInjector> faults_;    // null: nothing goes wrong on purpose here
};

}  // namespace cohort
