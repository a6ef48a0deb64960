// A stored checkpoint written again on one process, in the other form or as the ranks of another layout would have written it.
// Elements stream from file to file, a few blocks at a time: however large the checkpoint, memory holds its manifests and less
// than a hundred MiB beside them. Elements that keep their type keep their bits, and the training state is the same, who wrote
// it and when included. A job may save other steps in the run meanwhile: its saves are left alone. But they clear away what they
// take for the leftovers of a killed save, so the rewriting may fail, and is then repeated.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "checkpoint/read/reader.hpp"
#include "checkpoint/write/save.hpp"

namespace cohort {

/// Told the share of the elements that is done, after every few MiB.
using RewriteProgress = std::function<void(double share)>;

struct ConsolidateOptions {
  bool weights_only = false;              // without /optim, so that training cannot resume from it
  std::optional<DType> model_dtype = {};  // of /model; none: as stored
  StorageOptions storage = {};
};

/// Writes RUN/checkpoints/step_N in the form "consolidated"; a checkpoint of that step there, which may be the source itself, is
/// replaced when the new one is complete. With a `model_dtype` the values are rounded once, from their fp32 copies where there
/// are such; if it has 16 bits and the optimizer's state stays, the exact values do, too, under /optim/master. Errors: those of
/// reading (checkpoint) and of writing (io); config: a type that cannot be converted.
Saved consolidate_checkpoint(const CheckpointReader& source, const std::filesystem::path& run_folder,
                             const ConsolidateOptions& options, const RewriteProgress& progress = {});

/// A layout, as far as files show it.
struct FileLayout {
  int ranks = 1;
  std::function<std::vector<StateShard>(int rank)> shards;  // of each rank; without elements, they say what it would write
  std::string_view model;                                   // which it is made of, in the words of TrainingState::model
};

/// Writes RUN/checkpoints/step_N in the form "per_rank", each file as a rank of the layout writes it when it saves; replaces as
/// consolidate_checkpoint() does. /model stays as it is stored, /optim/master and optimizer state are there if the source has
/// them. Errors: as above; checkpoint: of another model than the layout's.
Saved reshard_checkpoint(const CheckpointReader& source, const std::filesystem::path& run_folder, const FileLayout& layout,
                         const StorageOptions& storage, const RewriteProgress& progress = {});

}  // namespace cohort
