// `cohort plan --schedule`: a pipeline schedule, simulated and drawn, beside the other schedules.
#pragma once

#include <string>
#include <vector>

namespace cohort {

struct PlanScheduleOptions {
  std::string schedule;  // a name of parallel/pipeline/pipeline_schedule.hpp
  int stages = 0;
  int micro_batches = 0;
  int chunks = 1;
  // Of one micro-batch through all layers of one rank: a chunk takes 1 / chunks of it. So all schedules do the same work.
  double forward_ms = 1.0;
  double backward_ms = 2.0;
  double transfer_ms = 0.0;
  std::vector<double> stage_costs;  // factors of consecutive equal parts of the model: none, `stages` or stages x chunks
  std::string svg;                  // file to write; "" = none
  bool overwrite = false;           // if it exists
  int width = 120;                  // columns of the text
  bool json = false;
};

/// Prints the timeline and its figures, or JSON, on the speaking rank, and returns the exit code. Throws Error(config) on numbers
/// that do not fit each other, Error(io) if the SVG cannot be written.
int plan_schedule(const PlanScheduleOptions& options);

}  // namespace cohort
