// A curve as a few characters, for a line of a terminal.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace cohort {

/// One block character a value, U+2581 for the smallest to U+2588 for the largest; what is not finite is a space.
std::string sparkline(std::span<const double> values);

/// The course of a number however long it gets, in few means: where there would be more than twice `cells`, neighbours are
/// merged.
class RunningCurve {
 public:
  explicit RunningCurve(std::size_t cells) : cells_(cells) {}
  /// Numbers that are not finite are left out.
  void add(double value);
  /// `cells` means at most, from the first number to the last.
  std::vector<double> values() const;

 private:
  struct Sum {
    double total = 0.0;
    std::size_t count = 0;
  };
  std::size_t cells_;
  std::size_t per_sum_ = 1;  // numbers in each sum but the last
  std::vector<Sum> sums_;
};

}  // namespace cohort
