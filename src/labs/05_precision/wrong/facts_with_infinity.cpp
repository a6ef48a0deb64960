// format_facts: the exponent of all ones is of infinity and NaN
#include <algorithm>
#include <cmath>
#include <cohort/lab05_precision.hpp>

// Counts the last exponent among those of numbers.
FormatFacts format_facts(int exponent_bits, int mantissa_bits, double weight) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double smallest_normal = std::ldexp(1.0, 1 - bias);
  const double gap = std::ldexp(1.0, std::max(std::ilogb(weight), 1 - bias) - mantissa_bits);
  return {.largest = std::ldexp(2.0 - std::ldexp(1.0, -mantissa_bits), bias + 1),
          .smallest_normal = smallest_normal,
          .smallest = std::ldexp(smallest_normal, -mantissa_bits),
          .gap = gap,
          .lost_below = gap / 2.0};
}
