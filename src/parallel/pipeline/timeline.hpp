// When a pipeline does what: the events of a step, simulated here or measured elsewhere, and how busy they keep the ranks.
//
// The simulation: a rank executes its actions one after the other, in their order, each as soon as what it needs is there.
//   forward of virtual stage v    needs the forward of v - 1 of the same micro-batch
//   backward of virtual stage v   needs its own forward, and the backward of v + 1
// What comes from another rank arrives `transfer` after it was made; messages overlap with work and do not slow each other down.
#pragma once

#include <vector>

#include "parallel/pipeline/pipeline_schedule.hpp"

namespace cohort::pipeline {

/// One action that took place. Times in any unit, from any zero, but the same of all events.
struct Event {
  int rank;
  Action action;
  double start;
  double end;
};

/// Times, all in one unit. Forward and backward are those of one micro-batch through each virtual stage, in the order of the
/// model: S V numbers above 0. The transfer, from 0 on, is that of one message between two ranks.
struct Costs {
  std::vector<double> forward;
  std::vector<double> backward;
  double transfer = 0.0;
};

/// The lists of all ranks, by rank.
std::vector<std::vector<Action>> actions_of_all(const Schedule& schedule);

/// Checks lists of any origin by the rules of pipeline_schedule.hpp: each rank has every pass of every (micro-batch, chunk) once,
/// micro-batches ascend within a chunk, and forwards, as well as backwards, come in the same order on all ranks. Throws
/// Error(internal) with the rank and the action. That the lists can be executed at all, simulate() shows.
void check(const Schedule& schedule, const std::vector<std::vector<Action>>& actions);

/// The events of a step, ranks ascending, those of a rank in order; the first starts at 0. Checks the lists. Throws
/// Error(internal) with what each rank waits for if no rank can proceed (deadlock).
std::vector<Event> simulate(const Schedule& schedule, const std::vector<std::vector<Action>>& actions, const Costs& costs);
/// The same with the schedule's own lists.
std::vector<Event> simulate(const Schedule& schedule, const Costs& costs);

/// How the ranks spent the time from the first start to the last end of any rank.
struct Occupation {
  double total = 0.0;
  std::vector<double> busy;  // by rank: the sum of its events

  double idle(int rank) const { return total - busy[static_cast<std::size_t>(rank)]; }
  /// The bubble fraction: the idle time of all ranks / (ranks x total). Compare bubble_formula().
  double bubble() const;
};

/// Of events of ranks below `ranks`, in any order. A rank's events do not overlap.
Occupation occupation_of(const std::vector<Event>& events, int ranks);

}  // namespace cohort::pipeline
