// The form "consolidated": one file, model.h5, with whole tensors. The ranks' parts travel to the ranks that write, which are all
// of them with parallel HDF5, and rank 0 else; each writes runs of whole blocks, a window of them at a time
// (window_exchange.hpp). Three things happen at once: a window is filled, the one before is written and summed up, and the disk
// is busy with those before that.
#pragma once

#include <filesystem>
#include <vector>

#include "checkpoint/format/manifest.hpp"
#include "checkpoint/format/training_state.hpp"
#include "checkpoint/save_options.hpp"
#include "checkpoint/write/write_plan.hpp"
#include "comm/communicator.hpp"

namespace cohort {

/// Writes FOLDER/model.h5; the manifest on rank 0. A failure of one rank is the same SharedError on all. // Collective over: comm
Manifest write_whole_file(Communicator& comm, const std::filesystem::path& folder, const std::vector<WriteItem>& parts,
                          const TrainingState& state, const StorageOptions& storage);

}  // namespace cohort
