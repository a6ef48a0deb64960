#include <chrono>
#include <cmath>
#include <utility>

#include "comm/consensus.hpp"
#include "config/model_rules.hpp"
#include "observe/clock.hpp"
#include "observe/metrics.hpp"
#include "train/observers/observers.hpp"

namespace cohort {
namespace {

class MetricsFile : public StepObserver {
 public:
  explicit MetricsFile(TrainingRun& run) : run_(run) {
    fail_together(run.world, "opening the logs", [&] {
      if (run.world.rank() != 0) return;
      writer_.emplace(std::filesystem::path(run.config.run.directory) / "metrics.jsonl",
                      run.done > 0 ? std::optional<Count>(run.done) : std::nullopt);
    });
  }

  // A validation before the first step is that of step 0.
  void begin_run() override {
    if (!writer_ || run_.evaluated_at != 0) return;
    nlohmann::ordered_json record{{"step", 0}, {"time", seconds_since_1970()}};
    record.update(figures_of(*run_.evaluation));
    writer_->write(record);
  }

  Wish end_step(StepRecord& step) override {
    if (!writer_) return {};
    const StepResult& result = step.result;
    const double samples = static_cast<double>(step.step * run_.sampler.global_batch());
    nlohmann::ordered_json record{{"step", step.step},
                                  {"time", seconds_since_1970()},
                                  {"loss", result.loss},
                                  {"learning_rate", result.learning_rate},
                                  {"gradient_norm", result.gradient_norm},
                                  {"tokens", result.valid_targets},
                                  {"tokens_per_second", step.rate},
                                  {"epoch", samples / static_cast<double>(run_.sampler.samples())}};
    if (result.valid_targets == 0) record["loss"] = nullptr;  // the mean of nothing
    if (const auto shares = run_.utilisation.at(step.rate)) {
      record["mfu"] = shares->palm;
      record["mfu_causal"] = shares->causal;
    }
    for (std::size_t source = 0; source < run_.data.sources.size(); ++source)
      record["epoch_of"][run_.data.sources[source].name] = run_.sampler.epochs(source, step.step);
    if (result.skipped) record["skipped"] = true;
    const LossScale& loss_scale = run_.train_step.loss_scale();
    if (loss_scale.active()) record["loss_scale"] = loss_scale.scale();
    nlohmann::ordered_json seconds{{"step", run_.timers.step_seconds()}};
    for (Phase phase : kPhases) seconds[std::string(name_of(phase))] = run_.timers.seconds(phase);
    record["seconds"] = std::move(seconds);
    if (run_.world.size() > 1) record["exposed_communication"] = std::round(1e6 * run_.timers.exposed_share()) / 1e6;
    for (const auto& [name, figure] : step.figures.items()) record[name] = figure;
    if (step.evaluation) record.update(figures_of(*step.evaluation));
    if (std::exchange(is_first_, false)) {
      record["run"] = {{"ranks", run_.world.size()},
                       {"layout", run_.mesh.shape().str()},
                       {"unit", units_name(run_.config.model)},
                       {"flops_per_unit", run_.utilisation.flops_per_unit()}};
      if (const auto& tokens = run_.data.tokens; tokens && run_.data.sources.empty() && tokens->entropy())
        record["run"]["entropy_floor"] = tokens->entropy()->exact;
      if (run_.utilisation.known()) record["run"]["peak_flops"] = *run_.utilisation.peak();
      add_job(record);
    }
    writer_->write(record);
    step.metrics = std::move(record);
    return {};
  }

 private:
  void add_job(nlohmann::ordered_json& record) const {
    const LauncherFacts& job = run_.launcher;
    if (job.job_id.empty()) return;
    record["slurm"] = {{"job", job.job_id}, {"restart", job.restart_count}};
    if (!job.array_job_id.empty()) record["slurm"]["array"] = job.array_job_id + "_" + job.array_task_id;
  }

  TrainingRun& run_;
  std::optional<MetricsWriter> writer_;  // rank 0
  bool is_first_ = true;                 // since this start
};

}  // namespace

std::unique_ptr<StepObserver> make_metrics_file(TrainingRun& run) { return std::make_unique<MetricsFile>(run); }

}  // namespace cohort
