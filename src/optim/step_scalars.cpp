#include "optim/step_scalars.hpp"

#include <cstddef>

#include "gpu/device.hpp"

namespace cohort {

StepScalars::StepScalars(DeviceKind device) : memory_(Tensor::zeros("step.scalars", {sizeof(Values)}, DType::u8, device)) {
  const auto at = [&](std::size_t offset, const Shape& shape, DType dtype) {
    return Tensor::wrap(memory_.data<std::uint8_t>() + offset, shape, dtype, device);
  };
  own_loss_ = at(offsetof(Values, own_loss), {1}, DType::f64);
  loss_ = at(offsetof(Values, loss), {1}, DType::f64);
  squares_ = at(offsetof(Values, squares), {1}, DType::f64);
  norm_ = at(offsetof(Values, norm), {1}, DType::f64);
  decisions_ = at(offsetof(Values, decisions), {sizeof(ops::OptimizerScalars)}, DType::u8);
  on_host_ = memory_.on_host() ? memory_ : Tensor::pinned("step.scalars", {sizeof(Values)}, DType::u8);
}

void StepScalars::fetch() const {
  if (!memory_.on_host()) gpu::copy_async(on_host_.raw(), memory_.raw(), sizeof(Values), gpu::compute_stream());
}

}  // namespace cohort
