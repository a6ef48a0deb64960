// The observers of a training's steps, each a file of this folder, and their list. A new one (for another logger, say) is a file
// here, its line below, and its line in the list in observers.cpp.
#pragma once

#include "train/step_observer.hpp"
#include "train/training_run.hpp"

namespace cohort {

/// All observers of a run, in the order in which they are called. // Collective over: world
Observers observers_of(TrainingRun& run, const TrainerOptions& options, std::unique_ptr<StepObserver> checkpoints);

/// A step that was skipped, since its loss or gradient is not a number: continues if that is as it should be, else throws.
std::unique_ptr<StepObserver> make_nonfinite_guard(TrainingRun& run);
/// The lines of each rank's log: how the run began, and each step, with its samples.
std::unique_ptr<StepObserver> make_step_log(TrainingRun& run);
/// What each rank did since the last report, and its memory: ranks.jsonl. Adds `memory` and, of several ranks, `slowest_rank` and
/// `own_work` to the figures; names ranks that are slower than the others. // Collective over: world
std::unique_ptr<StepObserver> make_rank_figures(TrainingRun& run);
/// Every train.validate_every steps, after the last and, if that is asked for, before the first. Sets the record's evaluation.
// Collective over: world
std::unique_ptr<StepObserver> make_validation(TrainingRun& run);
/// What the first step has allocated on the GPU. Null: not on a GPU.
std::unique_ptr<StepObserver> make_gpu_memory_log(TrainingRun& run);
/// What GPUs did between two reports; adds `gpu` to the figures. Null: not on a GPU.
std::unique_ptr<StepObserver> make_gpu_telemetry(TrainingRun& run);
/// layers.jsonl: norms and histograms of weights, gradients and activations by layer; sets the record's layers. Null: not asked
/// for. // Collective over: world
std::unique_ptr<StepObserver> make_layer_log(TrainingRun& run);
/// metrics.jsonl: a record a step, of all that those before it in the list have added. // Collective over: world
std::unique_ptr<StepObserver> make_metrics_file(TrainingRun& run);
/// The steps of TensorBoard's event file: what the metrics file and the layer log have written. Null: not asked for.
std::unique_ptr<StepObserver> make_tensorboard(TrainingRun& run);
/// Ends the run if the validation loss is not a number; behind the metrics, which have it then.
std::unique_ptr<StepObserver> make_validation_guard(TrainingRun& run);
/// What rank 0 shows: how the run begins, its progress, the last validation.
std::unique_ptr<StepObserver> make_console(TrainingRun& run);
/// The faults that are asked for, on their ranks. Null: there are none.
std::unique_ptr<StepObserver> make_faults(TrainingRun& run, const std::vector<FaultSection>& faults);
/// The weights of each checkpoint in the form of other tools: checkpoint.export. Null: it is "none". Throws Error(config) for a
/// model that the form cannot hold.
std::unique_ptr<StepObserver> make_exports(TrainingRun& run);
/// Signals, RUN/stop and RUN/save.
std::unique_ptr<StepObserver> make_requests(TrainingRun& run);
/// After the last step: some text of the model's.
std::unique_ptr<StepObserver> make_final_sample(TrainingRun& run);
/// The trace of these steps (train/trace_file.hpp). Null: none are asked for. // Collective over: world
std::unique_ptr<StepObserver> make_trace(TrainingRun& run, const std::optional<TraceRange>& range);

}  // namespace cohort
