// Moving some columns of an activation to or from a tensor of their own: keys and values out of the packed rows, to be sent.
#pragma once

#include "ops/exec.hpp"
#include "tensor/tensor.hpp"

namespace cohort::ops {

/// to[r, to_column + c] = from[r, from_column + c] for all rows r and c in [0, columns); the other columns of `to` stay as they
/// are. As many rows in both. Each is fp32, bf16 or fp16: elements are widened exactly, or rounded to nearest even.
void copy_columns(const Exec& exec, const Tensor& to, Count to_column, const Tensor& from, Count from_column, Count columns);

}  // namespace cohort::ops
