// Token and position embeddings.
#pragma once

#include <cstdint>
#include <span>

#include "ops/exec.hpp"
#include "tensor/tensor.hpp"

namespace cohort::ops {

/// out[r] = token_table[tokens[r]] (+ position_table[r mod T] if that tensor is defined). out [B*T, C]; token_table [V, C];
/// position_table [T, C]. Token ids must lie in [0, V): a COHORT_CHECK names the first that does not
/// (on the CPU; on a GPU the ids are in device memory, and whoever copied them there has checked them).
void embedding_forward(const Exec& exec, const Tensor& out, std::span<const std::int32_t> tokens, const Tensor& token_table,
                       const Tensor& position_table);

/// Accumulates the rows of dout into dtoken_table (and dposition_table if defined), in row order: the same bits each time.
void embedding_backward(const Exec& exec, const Tensor& dtoken_table, const Tensor& dposition_table,
                        std::span<const std::int32_t> tokens, const Tensor& dout);

}  // namespace cohort::ops
