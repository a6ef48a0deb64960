// plan_job: the step in which they agree is done and saved, too
#include <algorithm>
#include <array>
#include <cmath>
#include <cohort/lab04_nodes.hpp>
#include <string>
#include <vector>

using cohort::lab::Link;

// Counts the steps that are done when the signal comes.
JobPlan plan_job(const JobRequest& request) {
  JobPlan plan{};
  plan.nodes = (request.ranks + request.ranks_per_node - 1) / request.ranks_per_node;
  plan.signal_seconds = static_cast<long long>(std::ceil(2.0 * request.step_seconds + request.save_seconds));
  const double until_signal = request.limit_seconds - static_cast<double>(plan.signal_seconds) - request.start_seconds;
  if (until_signal <= 0.0) return plan;
  plan.steps_in_job = static_cast<long long>(std::ceil(until_signal / request.step_seconds));
  plan.jobs = (request.steps + plan.steps_in_job - 1) / plan.steps_in_job;
  return plan;
}
