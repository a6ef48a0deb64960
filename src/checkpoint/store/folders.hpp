// What a checkpoint's folder holds, and taking away what Cohort wrote there. Whoever deletes goes through this page: a file that
// Cohort did not write, and a link that a user made, are never removed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace cohort {

/// Whether the checkpoint in this folder is complete: its manifest is there.
bool is_complete(const std::filesystem::path& checkpoint);

/// The names in a folder, unsorted; none if there is no such folder. Throws Error(io).
std::vector<std::string> names_in(const std::filesystem::path& folder);

/// Throws Error(io).
void rename_folder(const std::filesystem::path& from, const std::filesystem::path& to);

/// What in a checkpoint's folder is not Cohort's, which is the folder itself if it is a link; nothing if all is, or if there is
/// no such folder. Cohort's are plain files of the names in format.hpp, and what is left of one that was being written
/// (NAME.tmp).
std::optional<std::filesystem::path> stranger_in(const std::filesystem::path& checkpoint);

/// Removes Cohort's files in a checkpoint's folder: the manifest first, so that whenever a kill or a failure ends it, what is
/// left does not count; then the index, so that who opens it later (h5py in this folder) fails instead of reading holes where
/// rank files are gone; then the rest and the folder, if nothing else is in it. What cannot be removed now (NFS keeps files that
/// somebody reads) is not an error: the next save tries again.
void remove_own_files(const std::filesystem::path& checkpoint);

/// Removes the folder of a save that was not completed, with all in it: MPI, too, leaves files of its own there. What cannot be
/// removed now is not an error, and a link stays.
void remove_unfinished_save(const std::filesystem::path& temporary);

}  // namespace cohort
