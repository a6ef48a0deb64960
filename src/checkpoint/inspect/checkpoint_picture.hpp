// A picture of what a checkpoint holds: how the values of each kind of tensor are spread, block by block, and how they changed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/inspect/statistics.hpp"

namespace cohort {

/// Tensors of one kind: the same one of each block, or one that is in no block.
struct KindPanel {
  std::vector<TensorStatistics> statistics;  // by block
  std::vector<Histogram> histograms;         // by block, all on one axis
};

/// A row of the picture.
struct KindRow {
  std::string name;                              // "blocks/0..11/attention/query/weight"
  std::string facts;                             // "12 x [768, 768] fp32"
  std::vector<std::optional<KindPanel>> panels;  // for each group; without value: this group has no such tensor
  std::vector<std::vector<double>> change;       // by block: the root mean square of the weights at each step
};

struct CheckpointPicture {
  std::string title;
  std::vector<std::string> groups;  // "weights", and slots of the optimizer: "m", "v"
  std::vector<Count> steps;         // of `change`, rising; fewer than two: it is not drawn
  std::vector<KindRow> rows;
};

/// An SVG document: a legend, then a row for each kind with a panel for each group and one for the change. Blocks are lines, the
/// first light, the last dark; weights blue, optimizer state orange, or green if it is nowhere negative, as means of squares are.
/// Histograms are as high as their counts, the tallest fills the panel; the axis runs from the least to the largest value of all
/// blocks, with a mark at zero, and says "log" where it is logarithmic away from zero (see ValueAxis). Zeros, NaN and infinities
/// are counted in words. The same picture gives the same bytes.
std::string draw_checkpoint(const CheckpointPicture& picture);

}  // namespace cohort
