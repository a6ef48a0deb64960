// What becomes of a long series before it is drawn.
#pragma once

#include "report/run_record.hpp"

namespace cohort {

/// A series of at most about `most` points that looks the same at that many pixels: of each stretch of steps the least and the
/// most value, and the first and the last point of all. Points that are not finite stay, one a stretch.
StepSeries thinned(const StepSeries& series, std::size_t most);

/// The exponential moving average with weight 2 / (n + 1) for each new value, started without bias (Kingma & Ba 2015, section 3),
/// where n is a hundredth of the points but at least 5. Values that are not finite are left out.
StepSeries smoothed(const StepSeries& series);

/// Means over `most` stretches of equal numbers of points; all points if there are fewer. Each has the step of its last point.
StepSeries averaged(const StepSeries& series, std::size_t most);

/// The sum up to each step.
StepSeries accumulated(const StepSeries& series);

/// The least of the finite values; NaN if there is none.
double least_of(const std::vector<double>& values);

/// The middle one of the finite values, or the mean of the two in the middle; NaN if there is none.
double median_of(std::vector<double> values);

}  // namespace cohort
