// Histograms of many tensors in one picture.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/inspect/statistics.hpp"

namespace cohort {

/// One histogram of the picture.
struct HistogramPanel {
  std::string name;   // of the tensor
  std::string facts;  // below it: shape and type
  TensorStatistics statistics;
  Histogram histogram;
};

/// An SVG document: a panel for each tensor, in the given order, row by row; weights blue, optimizer state orange, or green if it
/// is nowhere negative, as means of squares are. A panel's bars are as high as their counts, the tallest fills it; its axis runs
/// from the least to the largest value, with a mark at zero, and says "log" where it is logarithmic away from zero (see
/// ValueAxis). Zeros, NaN and infinities are counted in words. The same panels give the same bytes. About 1 kB a panel.
std::string draw_histograms(const std::vector<HistogramPanel>& panels, std::string_view title);

}  // namespace cohort
