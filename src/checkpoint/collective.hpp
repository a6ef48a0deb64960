// Saving and loading as a job: rank 0 alone touches the file system and decides, the others learn from it. One reader of a file
// however many ranks there are, no opinion of other ranks on what exists (file systems over the network disagree), and a failure
// of rank 0 is the same SharedError on all.
//
// Data parallelism: all ranks hold equal replicas, so rank 0's are the run's.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "comm/communicator.hpp"

namespace cohort {

/// save_checkpoint() on rank 0; returns on all when the checkpoint is on disk. The other ranks' registry and state are not looked
/// at.
/// // Collective over: comm
std::filesystem::path save_checkpoint_collectively(Communicator& comm, const std::filesystem::path& run_folder,
                                                   const ParameterRegistry& registry, const TrainingState& state,
                                                   const SaveOptions& options = {});

/// find_latest() as rank 0 sees it. // Collective over: comm
std::optional<std::filesystem::path> find_latest_collectively(Communicator& comm, const std::filesystem::path& run_folder);

/// resolve_checkpoint() and load_checkpoint() on rank 0, then its values, the optimizer state of `slots` and the training state
/// on all. `path` is a checkpoint or a run; all ranks have the same model. // Collective over: comm
TrainingState load_checkpoint_collectively(Communicator& comm, const std::filesystem::path& path,
                                           const ParameterRegistry& registry, std::string_view model,
                                           const std::vector<std::string>& slots);

/// resolve_checkpoint() and read_training_state() on rank 0, the result on all. // Collective over: comm
TrainingState read_training_state_collectively(Communicator& comm, const std::filesystem::path& path);

}  // namespace cohort
