// An operand of an op that is measured, as the op finds it in a step. What the op before has just written is in the core's own
// cache if it fits there. Weights, what forward kept and where results go were last touched many ops ago, and are not: calls take
// turns at so many copies of those that a core's own cache does not hold them.
#pragma once

#include <vector>

#include "tensor/tensor.hpp"

namespace cohort {

class TurningTensor {
 public:
  /// Copies of `value`, a tensor of the host, on a device.
  TurningTensor(const Tensor& value, DeviceKind device);

  const Tensor& operator[](std::size_t turn) const { return copies_[turn % copies_.size()]; }
  /// The same one in every call.
  const Tensor& just_written() const { return copies_.front(); }

 private:
  std::vector<Tensor> copies_;
};

}  // namespace cohort
