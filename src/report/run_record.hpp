// What a run folder tells of a run, for reports and comparisons: its metrics step by step, whatever state the folder is in. A run
// that is still under way, a last line that is cut off, steps that come twice: all is said, and the rest is there. Figures of the
// whole run are kept at every step, those of each rank and each layer as a picture shows them: 100,000 steps of any number of
// ranks take some 40 MB.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "report/heat_map.hpp"

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
  /// Wherever the step belongs; in place of what it has.
  void put(Count step, double value);
  void erase(Count step);
};

struct CheckpointRecord {
  Count step = 0;
  Bytes bytes = 0;
};

struct SampleRecord {
  Count step = 0;
  std::string text;
};

/// Of ranks.jsonl: each rank's own work as a multiple of the median in its pipeline stage, at the reported steps.
struct RankRecord {
  /// Own work from which on a rank counts as slow.
  static constexpr double kSlow = 1.3;
  struct Slow {
    Count reports = 0;  // in which it was
    Count first = 0;    // the step of the first of them
    double most = 0.0;
  };

  HeatMap map;
  Count reports = 0;
  std::vector<Slow> slow;  // by rank

  /// Reports of another number of ranks are of an earlier part of the run: they are forgotten. Returns whether steps were there
  /// already, and are replaced.
  bool add(Count step, const std::vector<double>& times);
};

/// Of layers.jsonl: the norm of each unit's gradient, before clipping.
struct LayerNorms {
  std::vector<std::string> units;
  HeatMap map;
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
  RankRecord ranks;
  LayerNorms gradients;
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
