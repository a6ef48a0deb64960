// `cohort plan RUN.toml`: what a run costs in its layout: memory, messages and idle time, predicted for any number of ranks, and
// with --measure held against a few real steps.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "config/run_config.hpp"
#include "plan/suggest.hpp"

namespace cohort {

struct PlanRunOptions {
  std::string run_file;
  std::vector<std::string> overrides;
  Count ranks = 0;  // 0: as many as were started; if none were, as many as the run file's degrees say
  bool measure = false;
  Count steps = 2;
  bool suggest = false;
  std::string svg;         // measure: picture of the pipeline; machine: of scaling and a step's time
  bool overwrite = false;  // if it exists
  bool json = false;

  // The machine that step times are planned for.
  std::string gpu, profile;      // a name of telemetry/device_peaks.hpp, or a file; at most one. "": a usual one
  Count ranks_per_node = 0;      // 0: the profile's; without a machine those that were started
  double memory_gib = 0.0;       // of one rank; 0 = what the profile says, if anything
  double host_memory_gib = 0.0;  // of a node, for all its ranks; 0 = the same
  double network_gbit = 0.0;     // of each GPU, instead of the data sheet's
  // What a whole run would take.
  double tokens = 0.0;              // 0: those of the run file's steps
  double price = 0.0;               // of a GPU-hour; 0: not said
  double failure_hours = 50'000.0;  // of one GPU between failures that end the run
  double checkpoint_seconds = 60.0, restart_seconds = 600.0;

  bool has_machine() const { return !gpu.empty() || !profile.empty(); }
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
/// How to run on a machine: the best layout and why, its step, how it scales, what a run costs, how often to save. Starts no MPI.
int plan_machine(const PlanRunOptions& options);

// What the last two share.
/// The run file without its layout, for the device of the machine.
RunConfig reference_of_plan(const PlanRunOptions& options, DeviceKind device);
/// Of --gpu, --profile and what else says something of it; without both a usual machine of the run file's kind.
PlannedMachine machine_of_plan(const PlanRunOptions& options, const RunConfig& run);
int ranks_of_machine(const PlanRunOptions& options, const RunConfig& run);
/// Throws Error(config) with what would help if no layout fits, or none but with parallel.offload.
void check_some_fit(const Suggestions& found, int ranks, const PlannedMachine& machine);
/// The table of layouts, then what does not fit and what is refused.
void print_suggestions(const Suggestions& found, int ranks, const PlannedMachine& machine, std::size_t lines);
nlohmann::ordered_json to_json(const Suggestions& found);

}  // namespace cohort
