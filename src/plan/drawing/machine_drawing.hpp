// The picture of a plan for a machine: how speed scales with ranks, and where the time of a step goes.
#pragma once

#include <string>
#include <string_view>

#include "plan/scaling_curve.hpp"

namespace cohort {

/// An SVG document. Left: tokens per second against ranks, both on logarithmic axes, with the global batch grown with the ranks
/// (weak) and fixed (strong), beside the dashed line on which every rank is worth as much as the first ones; points carry their
/// efficiency. Right: the time of a step on each of these numbers of ranks, as bars of its parts.
std::string draw_machine_plan(const ScalingCurve& curve, std::string_view title);

}  // namespace cohort
