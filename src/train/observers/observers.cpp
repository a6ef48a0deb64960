#include "train/observers/observers.hpp"

namespace cohort {

Observers observers_of(TrainingRun& run, const TrainerOptions& options, std::unique_ptr<StepObserver> checkpoints) {
  Observers list;
  list.push_back(make_nonfinite_guard(run));
  list.push_back(make_step_log(run));
  list.push_back(make_rank_figures(run));
  list.push_back(make_gpu_memory_log(run));
  list.push_back(make_validation(run));
  list.push_back(make_gpu_telemetry(run));
  list.push_back(make_layer_log(run));
  list.push_back(make_metrics_file(run));
  list.push_back(make_tensorboard(run));
  list.push_back(make_validation_guard(run));
  list.push_back(make_console(run));
  list.push_back(make_faults(run, options.faults));
  list.push_back(std::move(checkpoints));
  list.push_back(make_exports(run));
  list.push_back(make_requests(run));
  list.push_back(make_final_sample(run));
  list.push_back(make_trace(run, options.trace));
  std::erase(list, nullptr);  // what has nothing to do in this run
  return list;
}

}  // namespace cohort
