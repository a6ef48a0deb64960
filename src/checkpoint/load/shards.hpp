// What a rank of a run holds of the model and the optimizer's state, and loading it from a checkpoint of any layout: each rank
// reads the blocks that hold elements of its own, and nothing else. saver.hpp has saving.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/box.hpp"
#include "checkpoint/format/training_state.hpp"
#include "comm/communicator.hpp"
#include "tensor/owned.hpp"
#include "tensor/state_elements.hpp"

namespace cohort {

/// Elements of one logical tensor that this rank holds.
struct StateShard {
  std::string tensor;          // its name in the checkpoint
  int order = 0;               // of the parameter in the whole model
  TensorPart part;             // which elements
  StateElements elements;      // as many
  bool writes = true;          // of the ranks that hold the same elements, one: if rank 0 gathers all, the first
  bool writes_share = writes;  // of those ranks, the one whose share of the writing it is: if all ranks write
};

/// Optimizer state of one kind of a segment: elements that are laid out like the segment's.
struct SegmentSlot {
  std::string slot;        // its name: "m", "v"
  StateElements elements;  // none for a segment that is declared, without memory
};

/// This rank's place among the ranks that hold the same elements, which share the writing: each writes some of the tensors.
struct Replica {
  int index = 0;
  int count = 1;
};

/// What a rank owns of all parameters: their values, and the slots of each segment (or of none). Of a model that is declared,
/// without memory, the shards are without elements.
std::vector<StateShard> shards_of(const std::vector<OwnedSegment>& owned, const std::vector<std::vector<SegmentSlot>>& slots,
                                  const Replica& replica);

/// Reads the checkpoint `path` (or the newest of the run there) into all ranks' shards, those that do not write included. `model`
/// describes the model in the words that were saved as TrainingState::model. Only rank 0 decides what there is and reads the
/// manifest; then each rank reads its own. Errors (checkpoint) name file and dataset, and are the same SharedError on all ranks.
/// Format, version, model, names, shapes and types are compared before anything is overwritten; checksums as blocks are read, so
/// after a checksum error the shards are partly overwritten and of no use. // Collective over: comm
TrainingState load_shards(Communicator& comm, const std::filesystem::path& path, const std::vector<StateShard>& shards,
                          std::string_view model);

}  // namespace cohort
