// Checkpoints that a run does not resume from and that nobody asked to delete: steps beyond the one that it was taken back to,
// and what was in the way of a save without being the run's own. They are renamed to RUN/checkpoints/set_aside/step_NNNNNNNN
// (with .2, .3, ... if that is taken), where nothing counts as a checkpoint of the run, and stay until a user deletes them. Each
// is one rename: a kill at any moment leaves every one whole, under one name or the other.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/store/store.hpp"

namespace cohort {

/// RUN/checkpoints/set_aside
std::filesystem::path set_aside_folder(const std::filesystem::path& run_folder);

/// A path in there, of this name or with .2, .3, ..., where nothing is yet; makes the folder. Throws Error(io).
std::filesystem::path free_place_aside(const std::filesystem::path& run_folder, const std::string& name);

/// Renames a folder in RUN/checkpoints, whatever it is called there, to one set aside of this step; returns that. Throws
/// Error(io).
std::filesystem::path set_aside(const std::filesystem::path& run_folder, const std::filesystem::path& folder, Count step);

/// Sets aside all steps beyond `step`, complete or not, the highest first; returns where they are now. For the one process that
/// saves. Throws Error(io).
std::vector<std::filesystem::path> set_aside_beyond(const std::filesystem::path& run_folder, Count step);

/// Folders of steps beyond `step` without a manifest: perhaps on their way from another disk. By rising step.
std::vector<StoredCheckpoint> incomplete_beyond(const std::filesystem::path& run_folder, Count step);

}  // namespace cohort
