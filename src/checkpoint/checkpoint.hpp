// Saving and loading a training run: weights, optimizer state and what else it needs to go on bit for bit. The files are
// described in format.hpp. These functions run on one rank; collective.hpp has the forms that all ranks call.
//
// These forms are for one rank that holds the whole model; shards.hpp has those for ranks that hold parts of it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"
#include "checkpoint/store.hpp"
#include "checkpoint/stored_tensor.hpp"
#include "checkpoint/training_state.hpp"
#include "tensor/parameter.hpp"

namespace cohort {

struct SaveOptions {
  Count keep = 0;       // newest checkpoints kept; 0 = all
  bool verify = false;  // read everything back and compare checksums before the checkpoint counts
};

/// Writes RUN/checkpoints/step_N with all values and all optimizer state in the registry, and returns that folder; then deletes
/// older ones beyond options.keep. A checkpoint of the same step is replaced. After a crash or a failure (Error(io): full disk,
/// no permission) there is either a complete new checkpoint or none, and all former ones are as they were. The optimizer state of
/// a parameter has the parameter's shape.
std::filesystem::path save_checkpoint(const std::filesystem::path& run_folder, const ParameterRegistry& registry,
                                      TrainingState state, const SaveOptions& options = {});
/// The same for tensors from anywhere.
std::filesystem::path save_checkpoint(const std::filesystem::path& run_folder, const std::vector<StoredTensor>& tensors,
                                      TrainingState state, const SaveOptions& options = {});

/// Loads the checkpoint in `folder` (see resolve_checkpoint) into the registry's values and into the optimizer state named by
/// `slots`
/// ({"m", "v"}; {} = weights only), allocating state that is absent. Returns the training state.
/// `model` describes the registry's model in the words that were saved as TrainingState::model.
/// Errors (checkpoint) name file and dataset. Format, version, model, names, shapes and types are compared before anything is
/// overwritten; checksums are checked as tensors are read, so after a checksum error the registry is partly overwritten and of no
/// use.
TrainingState load_checkpoint(const std::filesystem::path& folder, const ParameterRegistry& registry, std::string_view model,
                              const std::vector<std::string>& slots);

/// The training state alone: the run file and model of a checkpoint before there is a registry.
TrainingState read_training_state(const std::filesystem::path& folder);

/// Allocates the optimizer state `slots` (zeros, fp32) of every parameter that lacks it, so that it can be loaded into.
void allocate_optimizer_state(const ParameterRegistry& registry, const std::vector<std::string>& slots);

}  // namespace cohort
