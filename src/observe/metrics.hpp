// metrics.jsonl: the numbers of a run, one JSON object a line and one line a step, for pandas, jq and the report. Rank 0 writes
// it.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "base/units.hpp"

namespace cohort {

class MetricsWriter {
 public:
  /// `resumed_step` is the last step that the resumed checkpoint has done: later lines, and lines that a crash cut short, are
  /// taken out, so that every step appears once. Without it the file starts empty. The folder must exist. Throws Error(io).
  explicit MetricsWriter(const std::filesystem::path& path, std::optional<Count> resumed_step = std::nullopt);

  /// Appends one line and flushes it. The record has an integer "step" above that of the last line. JSON has no NaN and no
  /// infinity: such a number "loss" is written as null, with "loss_text" beside it ("nan", "inf" or "-inf"); this holds in nested
  /// objects too. Bytes that are no UTF-8, as a text of a model may have them, are replaced.
  void write(const nlohmann::ordered_json& record);

  /// Lines taken out on resume because they could not be read, which a crash explains if it is one.
  Count unreadable_lines() const { return unreadable_lines_; }

 private:
  void keep_steps_up_to(Count resumed_step);

  std::filesystem::path path_;
  std::ofstream file_;
  Count last_step_ = -1;
  Count unreadable_lines_ = 0;
};

}  // namespace cohort
