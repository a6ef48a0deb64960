// format_facts: subnormal numbers are all the same distance apart
#include <cmath>
#include <cohort/lab05_precision.hpp>

// Subnormal numbers have no exponents of their own.
FormatFacts format_facts(int exponent_bits, int mantissa_bits, double weight) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double smallest_normal = std::ldexp(1.0, 1 - bias);
  const double gap = std::ldexp(1.0, std::ilogb(weight) - mantissa_bits);
  return {.largest = std::ldexp(2.0 - std::ldexp(1.0, -mantissa_bits), bias),
          .smallest_normal = smallest_normal,
          .smallest = std::ldexp(smallest_normal, -mantissa_bits),
          .gap = gap,
          .lost_below = gap / 2.0};
}
