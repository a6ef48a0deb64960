// A roofline (Williams, Waterman, Patterson 2009): what a machine can reach, by how many operations an op does for each byte that
// it moves; and where ops stand below it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cohort {

struct RooflinePoint {
  std::string op;
  double flops = 0.0;  // operations of a call
  double bytes = 0.0;  // that it moves: each operand once
  double seconds = 0.0;

  double intensity() const { return flops / bytes; }
  double flops_per_second() const { return flops / seconds; }
};

struct Roofline {
  double flops_per_second = 0.0;  // of large products
  double bytes_per_second = 0.0;  // of memory
  std::vector<RooflinePoint> points;

  /// Operations for each byte from which on arithmetic is the limit, not memory.
  double ridge() const { return flops_per_second / bytes_per_second; }
  /// The most that an op of this intensity can reach.
  double roof(double intensity) const;
};

/// An SVG document: both axes logarithmic, the roof, a dot for each op with a tooltip, and a legend. On a white ground.
std::string draw_roofline(const Roofline& roofline, std::string_view title);

}  // namespace cohort
