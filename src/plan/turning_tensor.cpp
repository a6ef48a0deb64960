#include "plan/turning_tensor.hpp"

#include <algorithm>

#include "base/units.hpp"

namespace cohort {
namespace {

// Cores have caches of up to 4 MiB of their own; kernels on a GPU share one, which four large tensors fill.
constexpr Bytes kOnHost = 16 * kMiB;
constexpr Bytes kLeast = 4;

}  // namespace

TurningTensor::TurningTensor(const Tensor& value, DeviceKind device) {
  const Bytes copies = device == DeviceKind::cpu ? std::max(kLeast, kOnHost / std::max<Bytes>(1, value.bytes())) : kLeast;
  const Tensor first = value.to(device, "calibration");
  const Count rows = value.shape()[0];
  std::vector<Count> all = value.shape().vector();
  all[0] = copies * rows;
  const Tensor memory = Tensor::zeros("calibration", Shape(all), value.dtype(), device);
  for (Bytes i = 0; i < copies; ++i) {
    copies_.push_back(memory.slice(i * rows, (i + 1) * rows));
    copies_.back().copy_from(first);
  }
}

}  // namespace cohort
