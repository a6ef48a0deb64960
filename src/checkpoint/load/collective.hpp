// Saving and loading as a job: only rank 0 touches the file system and decides, the others learn from it. One reader of a file
// however many ranks there are, no opinion of other ranks on what exists (file systems over the network disagree), and a failure
// of rank 0 is the same SharedError on all.
// shards.hpp has saving and loading of what ranks hold in training.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/read/reader.hpp"
#include "comm/communicator.hpp"
#include "tensor/parameter.hpp"

namespace cohort {

/// The weights of a checkpoint into a whole model on every rank. `path` is a checkpoint or a run. // Collective over: comm
TrainingState load_checkpoint_collectively(Communicator& comm, const std::filesystem::path& path,
                                           const ParameterRegistry& registry, std::string_view model);

/// resolve_checkpoint() as rank 0 sees it. // Collective over: comm
std::filesystem::path resolve_checkpoint_collectively(Communicator& comm, const std::filesystem::path& path,
                                                      std::optional<Count> step);

/// resolve_checkpoint() and read_training_state() on rank 0, the result on all. // Collective over: comm
TrainingState read_training_state_collectively(Communicator& comm, const std::filesystem::path& path);

/// Rank 0's state, on all ranks. // Collective over: comm
void broadcast_state(Communicator& comm, TrainingState& state);

}  // namespace cohort
