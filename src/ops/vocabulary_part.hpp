// Embedding and cross-entropy where each of several ranks holds some rows of the vocabulary (Shoeybi et al. 2019, "Megatron-LM",
// section 3). The ops do a part's share and never communicate: between them the caller combines the parts' results.
#pragma once

#include <cstdint>
#include <span>

#include "ops/exec.hpp"
#include "tensor/tensor.hpp"

namespace cohort::ops {

/// Rows [begin, end) of a vocabulary of `vocabulary`; at least one.
struct VocabularyPart {
  Count begin, end;
  Count vocabulary;

  Count rows() const { return end - begin; }
};

/// out[r] = table[tokens[r] - begin] if the part has that token, else 0; plus position_table[r mod T] if that is defined. out
/// [B*T, C]; table [rows of the part, C]; position_table [T, C]. The sum over the parts, one of which is given the positions, is
/// the embedding, and equal bit for bit to that of one rank: all terms but one are 0. Token ids must lie in [0, V), as in
/// ops/embedding.hpp.
void embedding_part_forward(const Exec& exec, const Tensor& out, std::span<const std::int32_t> tokens, const Tensor& table,
                            const Tensor& position_table, const VocabularyPart& part);

/// Accumulates the rows of dout [B*T, C] into dtable where the part has their tokens, and all rows into dposition_table if
/// defined, in row order. Overwrites dout, and `ids` [B*T] (i32), which is scratch memory.
void embedding_part_backward(const Exec& exec, const Tensor& dtable, const Tensor& dposition_table,
                             std::span<const std::int32_t> tokens, const Tensor& dout, const Tensor& ids,
                             const VocabularyPart& part);

// Cross-entropy. logits [R, >= rows of the part]: those of the part, then padding, which counts nowhere. Targets are those of the
// whole vocabulary, as in ops/cross_entropy.hpp. All else is fp32:
//   1. softmax_statistics;   2. largest_of_all = maximum over the parts of largest;   3. rescale_sums;
//   4. sums = sum over the parts of sums;   5. cross_entropy_of_sums, and softmax_gradient.

/// largest [R] = each row's maximum over the part's columns; sums [2, R] = the sum of exp(logit - largest) over them, and the
/// logit of the target, 0 if the part does not have it (and where the target is ignored). Reads logits.
void softmax_statistics(const Exec& exec, const Tensor& largest, const Tensor& sums, const Tensor& logits,
                        std::span<const std::int32_t> targets, const VocabularyPart& part);

/// The sums of exponentials, sums[0] [R], become those of exp(logit - largest_of_all).
void rescale_sums(const Exec& exec, const Tensor& sums, const Tensor& largest, const Tensor& largest_of_all);

/// loss_sum [1] (fp64) += sum over rows of -log softmax(logits)[target] (nats); ignored rows count nothing.
void cross_entropy_of_sums(const Exec& exec, const Tensor& loss_sum, const Tensor& largest_of_all, const Tensor& sums,
                           std::span<const std::int32_t> targets);

/// Overwrites logits with scale * (softmax(logits) - onehot(target)); ignored rows and padding get 0. Moves twice the bytes of
/// logits.
void softmax_gradient(const Exec& exec, const Tensor& logits, const Tensor& largest_of_all, const Tensor& sums,
                      std::span<const std::int32_t> targets, const VocabularyPart& part, float scale);

}  // namespace cohort::ops
