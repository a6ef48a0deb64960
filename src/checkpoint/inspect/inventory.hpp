// What lies in a run's folder of checkpoints: the complete ones, and what is none, with its reason. For people; loading and
// saving go by store.hpp.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.hpp"
#include "checkpoint/format/training_state.hpp"

namespace cohort {

enum class EntryKind {
  complete,    // a checkpoint: manifest, files and training state are there
  damaged,     // it has a manifest, but that or something else cannot be read
  incomplete,  // named like a checkpoint, without a manifest
  leftover,    // a save in progress or killed, or the former checkpoint of a step that was saved again
  set_aside,   // of a step that the run was taken back beyond, or that was in the way of a save; see set_aside.hpp
  stranger     // none of Cohort's names
};
std::string_view name_of(EntryKind kind);  // "complete", ...

struct CheckpointEntry {
  std::filesystem::path folder;
  EntryKind kind = EntryKind::complete;
  Count step = -1;     // by the folder's name; -1: none
  std::string reason;  // why it does not count
  Bytes bytes = 0;     // of the files in it
  // Of complete ones.
  CheckpointForm form = CheckpointForm::consolidated;
  Count parameters = 0;
  bool has_optimizer = false;
  TrainingState state;  // without its tokenizer, which may be large
};

/// Everything in RUN/checkpoints and its folder set_aside, by rising step, then by name. No damage is an error; sizes of files
/// are compared, elements not read. Error(io) if a folder cannot be listed.
std::vector<CheckpointEntry> inventory_of(const std::filesystem::path& run_folder);

/// The runs in a folder or below it, sorted: folders with a folder `checkpoints`. Links are not followed, what may not be listed
/// is passed over.
std::vector<std::filesystem::path> find_runs(const std::filesystem::path& folder);

}  // namespace cohort
