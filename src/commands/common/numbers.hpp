// Checks of numbers on the command line. CLI11's own let NaN pass, and print the ends of an open range with 309 digits.
#pragma once

#include <CLI/CLI.hpp>
#include <limits>

#include "base/units.hpp"

namespace cohort {

/// An integer from `low` to `high`; without `high`, of at least `low`.
CLI::Validator integer_from(Count low, Count high = std::numeric_limits<Count>::max());

/// A number from `low` to `high`, both allowed. NaN never is, nor an infinity.
CLI::Validator number_from(double low, double high);
/// The same, with `low` left out.
CLI::Validator number_above(double low, double high);

}  // namespace cohort
