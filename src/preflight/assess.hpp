// The verdict on a job's nodes: pure, so that every case can be tested without a cluster.
//
// Two kinds of limits. Nodes of one job should be alike: a figure far from the median of the others' is a fault of that node, or
// of what it is connected to. And there are absolute floors, wide ones, for what no training can be happy with on any machine.
#pragma once

#include <string>
#include <vector>

#include "preflight/check.hpp"
#include "preflight/measurements.hpp"

namespace cohort::preflight {

/// Checks of what was not measured are left out.
std::vector<Check> assess(const Measurements& measurements);

/// The part of assess() that is about GPUs and NCCL; nothing in a build without CUDA.
std::vector<Check> assess_gpus(const Measurements& measurements);

/// The lines of this level of all checks, each with the name of its check: "clock skew: node3: ...".
std::vector<std::string> problems_of(const std::vector<Check>& checks, Level level);

}  // namespace cohort::preflight
