// Saving and loading a model that ranks hold in parts, whatever the layout: rank 0 puts each logical tensor together, one at a
// time, and writes it; or reads it, and gives every rank its part. So a checkpoint is the same file in every layout, and any
// layout loads it. Rank 0 alone touches the file system and needs memory for the largest tensor; what lies in files
// elsewhere (offloaded optimizer state) comes into memory a parameter at a time.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "comm/communicator.hpp"
#include "tensor/owned.hpp"
#include "tensor/state_elements.hpp"

namespace cohort {

/// A run of elements of one logical tensor that this rank holds.
struct StateShard {
  std::string dataset;     // of the tensor in the checkpoint
  int order = 0;           // of the parameter in the whole model
  Shape shape;             // of the whole tensor
  ShardMap map;            // of this rank's part of it
  Count begin = 0;         // elements [begin, begin + n) of the part
  StateElements elements;  // n of them
  bool writes = true;      // of the ranks that hold the same elements, one
};

/// Optimizer state of one kind: for each segment elements that are laid out like the segment's.
struct SegmentState {
  std::string slot;  // "m", "v"
  std::vector<StateElements> segments;
};

/// What a rank owns of all parameters: their values, and the states. `writes`: this rank is the one among its replicas that
/// writes.
std::vector<StateShard> shards_of(const std::vector<OwnedSegment>& owned, const std::vector<SegmentState>& states, bool writes);

/// Writes RUN/checkpoints/step_N like save_checkpoint(); returns on all ranks when it is on disk. The shards that write must
/// cover every tensor once. A failure of rank 0 is the same SharedError on all. // Collective over: comm
std::filesystem::path save_shards(Communicator& comm, const std::filesystem::path& run_folder,
                                  const std::vector<StateShard>& shards, const TrainingState& state,
                                  const SaveOptions& options = {});

/// Reads the checkpoint `path` (or the newest of the run there) into all ranks' shards, those that do not write included. `model`
/// describes the model in the words that were saved as TrainingState::model. Errors (checkpoint) name file and dataset. Format,
/// version, model, names, shapes and types are compared before anything is overwritten; checksums as tensors are read, so after a
/// checksum error the shards are partly overwritten and of no use. // Collective over: comm
TrainingState load_shards(Communicator& comm, const std::filesystem::path& path, const std::vector<StateShard>& shards,
                          std::string_view model);

}  // namespace cohort
