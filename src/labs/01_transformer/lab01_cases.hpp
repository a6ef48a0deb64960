// What the graders of lab 1 share: numbers to compute with, and the comparison with a reference in double precision.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "labs/grading/guarded.hpp"

namespace cohort::labs::lab01_transformer {

using Doubles = std::vector<double>;

/// Normally distributed, the same each time.
std::vector<float> normal_values(std::size_t count, std::uint64_t seed, double deviation = 1.0, double mean = 0.0);

/// An array to be written: what is not written stays NaN, and is told so.
Guarded unwritten(std::size_t count);

/// What a known mistake computes instead, and what to say of it.
struct Mistake {
  Doubles values;
  std::string_view words;
};

/// Rejects `found`, an array of rows of `width` elements, at its first element that is farther from `expected` than `tolerance`
/// times the larger of its magnitude and the mean magnitude of all; in the words of the first of `mistakes` whose values it has.
void check_values(std::string_view name, const Guarded& found, std::size_t width, const Doubles& expected, double tolerance,
                  const std::vector<Mistake>& mistakes = {});

/// The same of one number, whose magnitude counts alone.
struct NumberMistake {
  double value;
  std::string_view words;
};
void check_number(std::string_view name, double found, double expected, double tolerance,
                  const std::vector<NumberMistake>& mistakes = {});

}  // namespace cohort::labs::lab01_transformer
