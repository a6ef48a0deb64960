// What a checkpoint says of its run, and what may differ when a run resumes from it.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/format/training_state.hpp"
#include "config/run_config.hpp"

namespace cohort {

/// A decay that nobody set follows train.steps. A resumed run keeps the decay that it began with instead, so that it is the
/// same run with more, or fewer, steps: puts the checkpoint's schedule.decay_steps into `now`, unless it was set. Returns what is
/// to be said of it; "" if nothing was changed.
std::string keep_schedule(const TrainingState& saved, RunConfig& now);

/// The keys whose value in `now` differs from that in the checkpoint's run file and would bend the run: model, adapters,
/// optimizer, schedule, precision, seed, documents, stages of a mixture, batch and clipping; and the data and its tokenizer
/// (data_record.hpp). Each as "schedule.decay_steps: 1000 in the checkpoint, 2000 now". What does not change the mathematics
/// (layout, micro-batch, logging, checkpoints) may differ.
std::vector<std::string> changes_since(const TrainingState& saved, const RunConfig& now, const std::string& data_now);

}  // namespace cohort
