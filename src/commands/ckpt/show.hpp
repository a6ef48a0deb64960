// How `cohort ckpt show` puts tensors on the page.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/inspect/statistics.hpp"

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

/// Which file holds what of the tensors.
std::string file_contents(const TensorReader& reader, const std::vector<ShownTensor>& tensors);

}  // namespace cohort
