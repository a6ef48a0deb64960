// The learning rate as a function of the optimizer step.
#pragma once

#include <functional>

#include "config/run_config.hpp"

namespace cohort {

/// The rate used by optimizer step `step` (0 is the first), with W = schedule.warmup_steps, D = schedule.decay_steps, peak =
/// peak_learning_rate() (config/rate_scaling.hpp) and final = peak * schedule.final_fraction:
///   step < W:       peak * (step + 1) / W       the first step's rate is peak / W, never 0
///   W <= step < D:  falls from peak (at step W) towards final; with p = (step - W) / (D - W):
///                   cosine:   final + (peak - final) * (1 + cos(pi p)) / 2    (Loshchilov & Hutter 2017, without restarts)
///                   linear:   peak + (final - peak) * p
///                   constant: peak
///   step >= D:      final (constant: peak)
double learning_rate(const ScheduleSection& schedule, double peak, Count step);

/// A cosine schedule of somebody else's. Steps count from 1 here.
using OwnCosine = std::function<double(const ScheduleSection& schedule, double peak, Count step)>;

/// From now on learning_rate() asks this function, and refuses other kinds than cosine (SharedError(usage)); an empty one ends
/// it. Not thread-safe. For the course, where a learner has written it.
void use_own_cosine(OwnCosine cosine);

}  // namespace cohort
