// Conversion between the floating-point types in which tensors are stored.
#pragma once

#include "tensor/tensor.hpp"

namespace cohort {

/// to[i] = from[i], rounded to nearest even where `to` is narrower. Both fp32, bf16 or fp16, on one device, with as many
/// elements. On the compute stream if on the device.
void convert(const Tensor& to, const Tensor& from);

/// An fp32 copy on the host, of a tensor of any of the three types on any device.
Tensor to_host_fp32(const Tensor& tensor);

}  // namespace cohort
