// plan_job: the signal comes 5 s before the end, too late: two steps and a save take 7 s
#include <algorithm>
#include <array>
#include <cmath>
#include <cohort/lab04_nodes.hpp>
#include <string>
#include <vector>

using cohort::lab::Link;

// Forgets that a step is not interrupted.
JobPlan plan_job(const JobRequest& request) {
  JobPlan plan{};
  plan.nodes = (request.ranks + request.ranks_per_node - 1) / request.ranks_per_node;
  plan.signal_seconds = static_cast<long long>(std::ceil(request.save_seconds));
  const double until_signal = request.limit_seconds - static_cast<double>(plan.signal_seconds) - request.start_seconds;
  if (until_signal <= 0.0) return plan;
  plan.steps_in_job = static_cast<long long>(std::ceil(until_signal / request.step_seconds)) + 1;
  plan.jobs = (request.steps + plan.steps_in_job - 1) / plan.steps_in_job;
  return plan;
}
