// The form "per_rank": each rank writes what it has into a file of its own, all at the same time, and rank 0 an index, model.h5,
// through which HDF5's tools see whole tensors.
#pragma once

#include <filesystem>
#include <vector>

#include "checkpoint/format/manifest.hpp"
#include "checkpoint/format/training_state.hpp"
#include "checkpoint/save_options.hpp"
#include "checkpoint/write/write_plan.hpp"
#include "comm/communicator.hpp"

namespace cohort {

/// "rank_00003.h5"
std::string rank_file_name(int rank);

/// Writes FOLDER/rank_NNNNN.h5 with these parts, and no file if there are none. Throws Error(io). // Local
struct RankFile {
  ManifestFile file;
  std::vector<ManifestPart> parts;  // in the order of the given ones; `file` is not set
};
RankFile write_rank_file(const std::filesystem::path& folder, int rank, const std::vector<WriteItem>& parts,
                         const StorageOptions& storage);

/// The same for each rank, one after the other, and the manifest of all that they hold, which lacks only model.h5. // Local
Manifest write_files_of_ranks(const std::filesystem::path& folder, const std::vector<std::vector<WriteItem>>& ranks,
                              const StorageOptions& storage);

/// Writes model.h5 for rank files that exist, and lists it as the first file of the manifest, which then lacks nothing. The
/// parts' files are counted from 1. // Local
void write_index(const std::filesystem::path& folder, Manifest& manifest, const TrainingState& state);

/// Each rank its own file, and rank 0 model.h5; the manifest on rank 0. A failure of one rank is the same SharedError on all. //
/// Collective over: comm
Manifest write_rank_files(Communicator& comm, const std::filesystem::path& folder, const std::vector<WriteItem>& parts,
                          const TrainingState& state, const StorageOptions& storage);

}  // namespace cohort
