// How `cohort ckpt show` puts tensors on the page.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/inspect/checkpoint_picture.hpp"
#include "checkpoint/inspect/statistics.hpp"
#include "checkpoint/read/reader.hpp"

namespace cohort {

/// A tensor of the checkpoint, with its statistics if the elements were read.
struct ShownTensor {
  const ManifestTensor* stored = nullptr;
  std::optional<TensorStatistics> statistics;
};

/// A line for each tensor below the groups of its name. With `fold`, three or more neighbours whose names are numbers and that
/// hold alike tensors (the blocks of a transformer) share their lines: "0..11", with the ranges of their figures.
std::string tensor_tree(const TensorReader& reader, const std::vector<ShownTensor>& tensors, bool fold);

/// All about one tensor: its parts, figures, and, if the elements were read, a histogram.
std::string tensor_details(const TensorReader& reader, const ShownTensor& tensor);

/// The picture of these tensors, whose elements were read. The change is from `earlier` checkpoints of the same run (none: it is
/// not drawn) to this one, of at most 24 of them, spread evenly; of many blocks 16 are drawn. Reads the tensors once more, and
/// the weights of the earlier ones. Errors: see CheckpointReader.
CheckpointPicture picture_of(const CheckpointReader& reader, const std::vector<ShownTensor>& tensors,
                             const std::vector<std::filesystem::path>& earlier);

/// Which file holds what of the tensors.
std::string file_contents(const TensorReader& reader, const std::vector<ShownTensor>& tensors);

}  // namespace cohort
