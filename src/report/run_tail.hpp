// A run's metrics while it runs: what has come since the last look, however long the file is.
#pragma once

#include <filesystem>
#include <string>

#include "base/units.hpp"
#include "observe/sparkline.hpp"

namespace cohort {

/// The newest figures of a run.
struct LatestFigures {
  Count step = -1;  // none yet
  double loss = 0.0, learning_rate = 0.0, gradient_norm = 0.0;
  double rate = 0.0;          // units a second, smoothed over about ten steps
  double step_seconds = 0.0;  // likewise
  double time = 0.0;          // seconds since 1970 of the record
  double mfu = -1.0;          // -1: unknown
  Bytes memory = 0;           // of the rank that uses most; 0: unknown
  Count validated_at = -1;    // -1: not yet
  double validation_loss = 0.0, lowest_validation_loss = 0.0;
  int slowest_rank = -1;  // and by how much it is slower than the median, where a report compared them
  double slowest_by = 0.0;
};

class RunTail {
 public:
  /// `cells`: of the curve of the loss. Throws Error(io) if the folder has no metrics.jsonl.
  RunTail(const std::filesystem::path& run_folder, std::size_t cells);

  /// Reads whole lines that have come; a line that is not whole waits. Returns whether there was one. After a resume at
  /// an earlier step, or a new start, what went before is forgotten.
  bool read_new();

  const LatestFigures& latest() const { return latest_; }
  std::vector<double> curve() const { return losses_.values(); }

 private:
  void take(const std::string& line);

  std::filesystem::path path_;
  std::size_t cells_;
  std::uint64_t read_ = 0;  // bytes
  LatestFigures latest_;
  RunningCurve losses_;
};

}  // namespace cohort
