// format_facts: rounding goes to the nearest, not down
#include <algorithm>
#include <cmath>
#include <cohort/lab05_precision.hpp>

// An update must be as large as the gap, it says.
FormatFacts format_facts(int exponent_bits, int mantissa_bits, double weight) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double smallest_normal = std::ldexp(1.0, 1 - bias);
  const double gap = std::ldexp(1.0, std::max(std::ilogb(weight), 1 - bias) - mantissa_bits);
  return {.largest = std::ldexp(2.0 - std::ldexp(1.0, -mantissa_bits), bias),
          .smallest_normal = smallest_normal,
          .smallest = std::ldexp(smallest_normal, -mantissa_bits),
          .gap = gap,
          .lost_below = gap};
}
