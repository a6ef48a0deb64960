// `cohort plan RUN.toml`: what a run costs in its layout: memory, messages and idle time, predicted for any number of ranks, and
// with --measure held against a few real steps.
#pragma once

#include <string>
#include <vector>

#include "base/units.hpp"
#include "config/run_config.hpp"

namespace cohort {

struct PlanRunOptions {
  std::string run_file;
  std::vector<std::string> overrides;
  Count ranks = 0;  // 0: as many as were started; if none were, as many as the run file's degrees say
  bool measure = false;
  Count steps = 2;
  bool suggest = false;
  double memory_gib = 0.0;  // suggest: of one rank; 0 = no limit
  std::string svg;          // measure: picture of the pipeline
  bool overwrite = false;   // if it exists
  bool json = false;
};

/// The run file, not validated yet, with its vocabulary: that of the token file where the run file leaves it open.
RunConfig read_plan_file(const PlanRunOptions& options);
/// The ranks that a plan without --measure is for.
Count ranks_of_plan(const PlanRunOptions& options, const RunConfig& config);

// Each prints and returns the exit code.
/// Predictions. Starts no MPI.
int plan_run(const PlanRunOptions& options);
/// Trains some steps in the layout, on the ranks that were started, and prints predictions and measurements side by side.
/// ExitCode::unequal if one is too far off. // Collective over: world
int plan_measure(const PlanRunOptions& options);
/// Layouts of the ranks, the fastest first. Starts no MPI.
int plan_suggest(const PlanRunOptions& options);

}  // namespace cohort
