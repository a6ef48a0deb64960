// All that `cohort plan --gpu` works out of a run on a machine.
#pragma once

#include <optional>

#include "commands/plan/run_costs.hpp"
#include "plan/goodput.hpp"
#include "plan/scaling_curve.hpp"
#include "plan/suggest.hpp"

namespace cohort {

struct MachinePlan {
  RunConfig reference;  // the run without a layout
  PlannedMachine machine;
  int ranks = 1;
  Count parameters = 0;
  Suggestions found;
  ScalingCurve curve;  // of the best
  Goodput goodput;
  Failures failures;
  double tokens = 0.0;        // of the whole run
  double price = 0.0;         // of a GPU-hour; 0: not said
  std::optional<double> mfu;  // where the peak is known, PaLM's count

  const Suggestion& best() const { return found.fitting.front(); }
  double tokens_of_step() const;
  double tokens_per_second() const { return tokens_of_step() / best().time.seconds; }
  /// Of the whole run, with what failures cost.
  double days() const;
  double gpu_hours() const { return 24.0 * days() * ranks; }
};

/// Throws Error(config) if no layout fits.
MachinePlan make_machine_plan(const PlanRunOptions& options);

}  // namespace cohort
