// What commands that generate text have in common.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/format/training_state.hpp"
#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "runtime/runtime.hpp"
#include "train/sampling.hpp"

namespace cohort {

/// The run of a checkpoint on these ranks, which must all be needed for one model. `name` is what the user called it; `tokens` a
/// token file instead of the run's, or "". Throws SharedError (usage) for a model without text, and for another number of ranks.
// Collective over: world
RunConfig run_for_text(Runtime& runtime, Communicator& world, const std::string& name, const TrainingState& state,
                       const std::vector<std::string>& overrides, const std::string& layout, const std::string& tokens);

/// work(), which generates text: where logits are not finite, the error names the first unit on any rank whose output is not.
// Collective over: world
void with_place_of_not_finite(Communicator& world, const std::function<void()>& work);

/// --temperature, --top-k and --top-p.
void add_sampling_options(CLI::App& command, Sampling& sampling);

}  // namespace cohort
