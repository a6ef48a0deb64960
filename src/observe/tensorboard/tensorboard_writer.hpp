// TensorBoard's event files: scalars, histograms and texts by step, which `tensorboard --logdir RUN` shows. A file is a sequence
// of records (TFRecord), each a message Event of TensorFlow's in the wire format of protobuf (wire_format.hpp).
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/units.hpp"

namespace cohort {

/// Values between `edges`, which rise: counts[i] from edges[i] on up to edges[i + 1].
struct ValueHistogram {
  std::vector<double> edges;
  std::vector<double> counts;
};

/// What one step has to show, by name; of names with a slash, what stands before it is a group.
struct TensorBoardStep {
  Count step = 0;
  double time = 0.0;                                         // seconds since 1970
  std::vector<std::pair<std::string, double>> scalars = {};  // may be NaN or infinite
  std::vector<std::pair<std::string, ValueHistogram>> histograms = {};
  std::vector<std::pair<std::string, std::string>> texts = {};  // UTF-8
};

class TensorBoardWriter {
 public:
  /// A new file in `folder`, which is made if it is missing; it sorts behind those that are there. What these have of steps from
  /// `first_step` on, TensorBoard takes for superseded. Throws Error(io) if it cannot be written.
  TensorBoardWriter(const std::filesystem::path& folder, Count first_step, double time);

  /// Appends an event and flushes it. Throws Error(io).
  void write(const TensorBoardStep& step);

 private:
  void append(const std::string& event);

  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace cohort
