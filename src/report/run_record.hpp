// What a run folder tells of a run, for reports and comparisons: its metrics step by step, whatever state the folder is in. A run
// that is still under way, a last line that is cut off, steps that come twice: all is said, and the rest is there.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace cohort {

/// Numbers at some of the steps, by rising step.
struct StepSeries {
  std::vector<Count> steps;
  std::vector<double> values;  // may be NaN or infinite, as the run had them

  bool empty() const { return steps.empty(); }
  void add(Count step, double value) {
    steps.push_back(step);
    values.push_back(value);
  }
};

struct CheckpointRecord {
  Count step = 0;
  Bytes bytes = 0;
};

struct SampleRecord {
  Count step = 0;
  std::string text;
};

struct RunRecord {
  std::filesystem::path folder;
  std::string name;                // of the folder
  std::string run_file;            // the resolved run file; "" if it is not there
  std::vector<std::string> notes;  // what is wrong with the folder, in whole sentences

  /// Figures of metrics.jsonl by name: "loss", "validation_loss", "learning_rate", "gradient_norm", "tokens",
  /// "tokens_per_second", "mfu", ...; what is in an object has its name before it: "seconds.step", "own_work.max". A number that
  /// was written as text, since JSON has no NaN, is here as it was.
  std::map<std::string, StepSeries> figures;
  /// Of ranks.jsonl: each rank's own work as a multiple of the median in its pipeline stage, at the reported steps.
  struct Ranks {
    std::vector<Count> steps;
    std::vector<std::vector<double>> times;
  } ranks;
  std::vector<CheckpointRecord> checkpoints;
  std::vector<SampleRecord> samples;

  // Of the run, as the first record of its last start says.
  std::optional<Count> rank_count = {};
  std::string layout = {};
  std::string unit = "tokens";
  std::optional<double> entropy_floor = {};  // nats a token

  /// Nothing if there is no such figure.
  const StepSeries* find(const std::string& figure) const;
  Count last_step() const;
};

/// Reads a run's folder. Throws Error(io) if there is no metrics.jsonl with a record in it: the folder, and what is wrong.
RunRecord read_run_record(const std::filesystem::path& folder);

}  // namespace cohort
