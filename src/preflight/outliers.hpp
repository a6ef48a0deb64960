// Which of several alike things is not like the others.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace cohort::preflight {

/// The middle one; of an even number of values the mean of the two in the middle. There is at least one.
double median(std::vector<double> values);

/// One thing and its figure; 0 = not measured, which is nobody's outlier.
struct Measured {
  std::string where;  // "node3 GPU 0000:1B:00.0"
  double value = 0.0;
};

struct Outlier {
  std::size_t index;     // among what was given
  double others_median;  // of all the others that were measured
};

/// Those below `fraction` of the median of all the others. The median of the others, and not of all: with two things the slow one
/// would be half of its own yardstick. More than half of them bad at once cannot be seen this way; floors are for that.
std::vector<Outlier> low_outliers(const std::vector<Measured>& things, double fraction);
/// Those above `factor` times the median of all the others.
std::vector<Outlier> high_outliers(const std::vector<Measured>& things, double factor);

/// The text that most have; the first of equally frequent ones. "" if there is none.
std::string most_common(const std::vector<std::string>& texts);

}  // namespace cohort::preflight
