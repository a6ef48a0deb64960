// The product of a linear layer for few rows: one new token of a text, or of several texts at once. It reads the whole weight for
// little arithmetic, so its time is that of reading memory: libraries' products, made for many rows, were seen to reach a third
// of the memory's bandwidth with one row.
//
// Each row is computed by itself: its bits do not depend on what rows are beside it, nor on how many. So a text is the same
// whatever other texts are generated with it. Exec::row_by_row makes the linear layers of ops/linear.hpp use it.
#pragma once

#include "ops/exec.hpp"
#include "tensor/tensor.hpp"

namespace cohort::ops {

/// y [R, N] = x [R, K] W^T + residual [R, N] + bias [N], of which the last two may be undefined; y may be residual. W is [N, K].
/// All of one type, sums in fp32. y may have more columns than N, which are left alone; with a residual it has N. Moves N K
/// elements of the weight, once, and R (K + N) others for 2 R N K operations.
void row_product(const Exec& exec, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& residual,
                 const Tensor& bias);

}  // namespace cohort::ops
