// The form "consolidated": one file, model.h5, with whole tensors. The ranks' parts travel to the ranks that write, which are all
// of them with parallel HDF5, and rank 0 else; each writes runs of whole blocks, a window of them at a time, so that no rank
// holds more than a window of what is not its own.
#pragma once

#include <filesystem>
#include <vector>

#include "checkpoint/manifest.hpp"
#include "checkpoint/outgoing.hpp"
#include "checkpoint/save_options.hpp"
#include "checkpoint/training_state.hpp"
#include "comm/communicator.hpp"

namespace cohort {

/// Elements [begin, begin + elements) of a tensor.
struct Window {
  Count begin = 0;
  Count elements = 0;
};

/// The `round`th window of `writer`, of `writers`, in a tensor of `elements` elements that is number `tensor` of the file.
/// Windows begin at borders of blocks, follow each other, and cover the tensor; small tensors go to the writers by turns.
Window window_of(Count elements, Count tensor, int writers, int writer, Count round);
/// How many rounds there are.
Count rounds_of(Count elements, int writers);

/// Writes FOLDER/model.h5; the manifest on rank 0. A failure of one rank is the same SharedError on all. // Collective over: comm
Manifest write_whole_file(Communicator& comm, const std::filesystem::path& folder, const std::vector<OutgoingPart>& parts,
                          const TrainingState& state, const StorageOptions& storage);

}  // namespace cohort
