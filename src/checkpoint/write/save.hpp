// Writing a checkpoint: weights, optimizer state and what else a training run needs to resume bit for bit. The files are
// described in format/format.hpp; load/shards.hpp has loading, read/reader.hpp reading, saver.hpp saving in the background.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "checkpoint/format/training_state.hpp"
#include "checkpoint/load/shards.hpp"
#include "checkpoint/save_options.hpp"
#include "checkpoint/store/store.hpp"
#include "checkpoint/write/write_plan.hpp"
#include "comm/communicator.hpp"

namespace cohort {

/// A checkpoint that is complete and on disk.
struct Saved {
  Count step = 0;
  std::filesystem::path folder;
  Bytes bytes = 0;      // of all its files
  std::string trouble;  // what failed without harm: the command on_commit, or removing older checkpoints; "" if nothing
};

/// Writes RUN/checkpoints/step_N out of the ranks' parts, then deletes the checkpoints that the retention does not keep. A
/// checkpoint of the same step is replaced. Only rank 0 creates and renames folders and decides. After a crash or a failure
/// (Error(io): full disk, no permission) there is either a complete new checkpoint or none, and all former ones are as they were.
/// A failure of one rank is the same SharedError on all. The parts must cover every tensor once. // Collective over: comm
Saved save_parts(Communicator& comm, const std::filesystem::path& run_folder, std::vector<WriteItem> parts,
                 const TrainingState& state, const SaveOptions& options = {});

/// The same in the form "per_rank" on one process, which has the parts of all ranks. Throws Error.
Saved save_parts_of_ranks(const std::filesystem::path& run_folder, std::vector<std::vector<WriteItem>> ranks,
                          const TrainingState& state, const SaveOptions& options);

/// The same of the shards that write.
std::filesystem::path save_shards(Communicator& comm, const std::filesystem::path& run_folder,
                                  const std::vector<StateShard>& shards, const TrainingState& state,
                                  const SaveOptions& options = {});

/// A whole tensor.
struct StoredTensor {
  std::string dataset;  // "/model/...", "/optim/m/..."
  Shape shape;
  DType dtype = DType::f32;
  std::function<Tensor()> read;  // all of it, in host memory; called once, in the order of the tensors
};

/// The same on one process, of whole tensors. Throws Error.
std::filesystem::path save_checkpoint(const std::filesystem::path& run_folder, const std::vector<StoredTensor>& tensors,
                                      const TrainingState& state, const SaveOptions& options = {});

}  // namespace cohort
