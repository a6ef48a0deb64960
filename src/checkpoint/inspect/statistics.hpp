// What can be said of a stored tensor in a few numbers, and its histogram. Elements are read in blocks, so memory stays small
// however large the tensor is.
#pragma once

#include <vector>

#include "checkpoint/read/tensor_reader.hpp"
#include "checkpoint/read/verify.hpp"

namespace cohort {

/// NaN and infinities are counted; all else is of the finite elements, in fp64. Without finite elements: zeros.
struct TensorStatistics {
  Count elements = 0;
  Count zeros = 0;
  Count nans = 0;
  Count infinities = 0;
  double norm = 0.0;  // L2: the root of the sum of squares
  double mean = 0.0;
  double deviation = 0.0;  // the root of the mean of (x - mean)^2
  double min = 0.0;
  double max = 0.0;
  double smallest = 0.0;  // the least |x| above zero; 0: there is none

  Count finite() const { return elements - nans - infinities; }
  /// The root of the mean of x^2.
  double root_mean_square() const;
};

/// Reads the tensor once; every checksum is compared. Errors: see TensorReader::read_blocks().
TensorStatistics statistics_of(const TensorReader& reader, const ManifestTensor& tensor);
/// The same of one in host memory.
TensorStatistics statistics_of(const Tensor& tensor);

/// Of all their elements together.
TensorStatistics merged(const std::vector<TensorStatistics>& parts);

/// Where on an axis a value lies. Linear; or linear from -`bend` to `bend` and logarithmic beyond, which shows values near zero
/// and far from it in one picture: position asinh(x / bend).
class ValueAxis {
 public:
  /// What suits these values. Weights spread evenly: linear. Values of both signs with some that are far out: bent at their root
  /// mean square. Values of one sign that span decades (the second moments of AdamW): bent at the smallest.
  static ValueAxis suiting(const TensorStatistics& statistics);

  bool linear() const { return bend_ == 0.0; }
  double low() const { return low_; }
  double high() const { return high_; }
  /// 0 at low(), 1 at high().
  double position(double value) const;
  double value(double position) const;

 private:
  ValueAxis(double low, double high, double bend) : low_(low), high_(high), bend_(bend) {}
  double bent(double value) const;

  double low_, high_, bend_;
};

/// How many finite elements lie in each of the bins, which have equal widths on the axis.
struct Histogram {
  ValueAxis axis;
  std::vector<Count> counts;

  Count tallest() const;
};

/// Reads the tensor once more. Elements beyond the axis are in its first or last bin.
Histogram histogram_of(const TensorReader& reader, const ManifestTensor& tensor, const ValueAxis& axis, int bins);

}  // namespace cohort
