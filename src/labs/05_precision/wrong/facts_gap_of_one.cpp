// format_facts: that is the gap above 1; it grows with the exponent
#include <cmath>
#include <cohort/lab05_precision.hpp>

// Takes the gap above 1 for that of every weight.
FormatFacts format_facts(int exponent_bits, int mantissa_bits, double) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double smallest_normal = std::ldexp(1.0, 1 - bias);
  const double gap = std::ldexp(1.0, -mantissa_bits);
  return {.largest = std::ldexp(2.0 - std::ldexp(1.0, -mantissa_bits), bias),
          .smallest_normal = smallest_normal,
          .smallest = std::ldexp(smallest_normal, -mantissa_bits),
          .gap = gap,
          .lost_below = gap / 2.0};
}
