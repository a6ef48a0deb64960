// The search for where numbers stopped being numbers: a NaN or an infinity is never a result, and whoever meets one is told the
// rank and the part of the model that it came from.
#pragma once

#include <functional>
#include <string>

#include "comm/communicator.hpp"
#include "tensor/tensor.hpp"

namespace cohort {

/// Whether no element is NaN or infinite. The tensor may lie on a device.
bool all_finite(const Tensor& tensor);

/// Keeps the name of the first unit whose output is not finite.
class FirstNotFinite {
 public:
  /// To be a StepContext's `inspect`; it refers to this object.
  std::function<void(const std::string&, const Tensor&)> inspector();
  /// "" if all outputs were finite.
  const std::string& unit() const { return unit_; }

 private:
  std::string unit_;
};

/// "the first output that is not finite is that of blocks.3 on rank 2", of the lowest rank with an `own` unit, or "".
// Collective over: world
std::string first_not_finite_in_words(Communicator& world, const std::string& own);

}  // namespace cohort
