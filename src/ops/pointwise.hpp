// Sums, biases and dropout.
#pragma once

#include <cstdint>
#include <span>

#include "ops/exec.hpp"
#include "ops/token_rows.hpp"
#include "tensor/tensor.hpp"

namespace cohort::ops {

/// x [R, N] += bias [N], for each row.
void add_bias(const Exec& exec, const Tensor& x, const Tensor& bias);

/// dbias [N] += column sums of dx [R, N].
void bias_backward(const Exec& exec, const Tensor& dbias, const Tensor& dx);

/// out = x + y, elementwise; out may be x or y.
void add(const Exec& exec, const Tensor& out, const Tensor& x, const Tensor& y);

/// x *= factor, elementwise.
void scale(const Exec& exec, const Tensor& x, float factor);

/// out = x + y + bias, the end of a residual branch: x, y, out [R, C], bias [C]. out may be x or y. Moves 12 R C bytes.
void add_residual(const Exec& exec, const Tensor& out, const Tensor& x, const Tensor& y, const Tensor& bias);

/// Names one dropout mask. The mask of an element is a pure function of (seed, step, layer, global index of the element), where
/// the global index is (slot * elements of a sample + index in the sample): the same for every layout and number of ranks. Where
/// the rows are a part of each sample, both are those of the whole sample.
struct DropoutKey {
  double probability = 0.0;  // 0 = no dropout
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t layer = 0;            // tells apart the places in the model
  std::span<const Count> slots = {};  // [B] position of each sample in the global batch of the step; where the op runs
  TokenRows rows = {};                // which tokens of each sample the rows are
  // Where an op works on some of what is here. 0 of all: it works on all of it.
  Count first_row = 0, all_rows = 0;    // dropout: x holds the rows from first_row of the all_rows rows of the B samples
  Count first_head = 0, all_heads = 0;  // attention: its query heads are those from first_head of the model's all_heads
};

/// x [B * rows of a sample, N], or some of its rows, one row a token where key.rows says which, is scaled by 1 / (1 - p) where
/// kept and zeroed where dropped, in place. Backward is the same call on the gradient. Does nothing for probability 0.
void dropout(const Exec& exec, const Tensor& x, const DropoutKey& key);

}  // namespace cohort::ops
