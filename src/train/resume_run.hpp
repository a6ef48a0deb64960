// How a run resumes from a checkpoint; what may differ then says train/resume.hpp.
#pragma once

#include "train/training_run.hpp"

namespace cohort {

/// Loads the first of options.resume_from that is sound, and what it says of the run: steps, history, loss scale, schedule. Those
/// before it are told of in run.notes. Throws SharedError: checkpoint, with what else can be done, if none can be loaded or it is
/// of another model; config if keys that bind the run have changed, or if no step is left. // Collective over: world
void resume_run(TrainingRun& run, const TrainerOptions& options);

/// Sets aside, on rank 0, checkpoints and metrics of steps beyond the one that the run resumes from, before anything else of the
/// run is changed; run.notes say where they are. // Collective over: world
void set_aside_later_steps(TrainingRun& run);

}  // namespace cohort
