// model.h5 but for its tensors: the training state as attributes and texts.
#pragma once

#include <filesystem>

#include "checkpoint/format/manifest.hpp"
#include "checkpoint/format/training_state.hpp"
#include "checkpoint/save_options.hpp"
#include "hdf5/hdf5.hpp"

namespace cohort {

/// In a parallel file: collective over its ranks, with the same state.
void write_state(hdf5::File& file, const TrainingState& state);

hdf5::FileOptions file_options(const StorageOptions& storage);
hdf5::DatasetLayout dataset_layout(const StorageOptions& storage);

/// Checksums of the blocks of `elements` elements, which begin at the border of a block.
std::vector<std::uint32_t> block_sums(const std::byte* data, Count elements, DType dtype);

/// A file that was written and closed, flushed to disk, as the manifest has it.
ManifestFile finished_file(const std::filesystem::path& folder, const std::string& name);

}  // namespace cohort
