// Writing a checkpoint, of whole tensors: weights, optimizer state and what else a training run needs to go on bit for bit. The
// files are described in format.hpp. These functions run on one rank; shards.hpp has saving and loading for the ranks of a run,
// which hold the tensors in parts.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "checkpoint/store.hpp"
#include "checkpoint/stored_tensor.hpp"
#include "checkpoint/training_state.hpp"

namespace cohort {

struct SaveOptions {
  Count keep = 0;       // newest checkpoints kept; 0 = all
  bool verify = false;  // read everything back and compare checksums before the checkpoint counts
};

/// Writes RUN/checkpoints/step_N with these tensors, and returns that folder; then deletes older ones beyond options.keep. A
/// checkpoint of the same step is replaced. After a crash or a failure (Error(io): full disk, no permission) there is either a
/// complete new checkpoint or none, and all former ones are as they were.
std::filesystem::path save_checkpoint(const std::filesystem::path& run_folder, const std::vector<StoredTensor>& tensors,
                                      TrainingState state, const SaveOptions& options = {});

/// The training state alone: the run file and model of a checkpoint before there is a registry.
TrainingState read_training_state(const std::filesystem::path& folder);

}  // namespace cohort
