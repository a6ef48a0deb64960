// The vocabulary, or the part of it that this rank holds: embedding and loss (Shoeybi et al. 2019, "Megatron-LM", section 3). The
// table of the embedding and that of the head are split alike, by rows, so that a tied head needs nothing of its own; no rank
// ever holds the logits of a whole row: the softmax is put together from one maximum and two sums a row.
#pragma once

#include <cstdint>
#include <span>

#include "nn/tensor_parallel.hpp"
#include "ops/vocabulary_part.hpp"

namespace cohort {

class Vocabulary {
 public:
  /// Each part has ceil(size / parts) entries, the last what is left. Throws Error(config) if none would be.
  explicit Vocabulary(Count size, TensorParallel& parallel = TensorParallel::none());

  /// This part of a table [size, C].
  ShardSpec shard() const;
  Count own_entries() const { return part_.rows(); }
  /// Of the largest part.
  Count most_entries() const;

  /// x [own rows, C] = the embedding of tokens [B*T]: rows of `table` (this part), plus positions [T, C] (or [B*T, C]) if
  /// defined.
  // Collective over: tp
  void embed(const StepContext& context, const Tensor& x, std::span<const std::int32_t> tokens, const Tensor& table,
             const Tensor& positions) const;
  /// Accumulates into the gradients of both tables; dx [own rows, C] is overwritten. Every part gets the whole gradient of the
  /// positions, which is of the rows 0 to T - 1 of their table, or with context.documents of the whole table.
  // Collective over: tp
  void embed_backward(const StepContext& context, const Tensor& dtable, const Tensor& dpositions,
                      std::span<const std::int32_t> tokens, const Tensor& dx) const;

  /// context.loss_sum += the sum of the loss over all rows of logits [R, >= own_entries()], the same on every part. With `scale`,
  /// logits become its gradient times *scale. // Collective over: tp
  void loss(const StepContext& context, const Tensor& logits, std::span<const std::int32_t> targets, const float* scale) const;

 private:
  Count size_;
  TensorParallel* parallel_;
  ops::VocabularyPart part_;
};

}  // namespace cohort
