#include "nn/vocabulary.hpp"

#include <algorithm>

#include "ops/cross_entropy.hpp"
#include "ops/embedding.hpp"

namespace cohort {

Vocabulary::Vocabulary(Count size, TensorParallel& parallel) : size_(size), parallel_(&parallel) {
  const Count begin = parallel.part() * most_entries();
  part_ = {begin, std::min(size, begin + most_entries()), size};
  if (parallel.parts() == 1 || most_entries() * (parallel.parts() - 1) < size) return;
  fail(ExitCode::config,
       "a vocabulary of {} in {} tensor-parallel parts of {} leaves none for the last; choose fewer parts (parallel.tp) or set "
       "model.vocabulary to at least {}",
       size, parallel.parts(), most_entries(), most_entries() * (parallel.parts() - 1) + 1);
}

Count Vocabulary::most_entries() const { return (size_ + parallel_->parts() - 1) / parallel_->parts(); }

ShardSpec Vocabulary::shard() const {
  if (parallel_->parts() == 1) return {};
  return {.splits = {{0, Axis::tp, part_.begin, part_.end}}};
}

void Vocabulary::embed(const StepContext& context, const Tensor& x, std::span<const std::int32_t> tokens, const Tensor& table,
                       const Tensor& positions) const {
  if (parallel_->parts() == 1) return ops::embedding_forward(context.exec, x, tokens, table, positions);
  const Arena::Scope scratch(*context.activations);
  const Tensor partials = parallel_->take_all_rows(context, x);
  // Positions are added once, by the first part.
  ops::embedding_part_forward(context.exec, partials, tokens, table, parallel_->part() == 0 ? positions : Tensor{}, part_);
  parallel_->sum_rows(x, partials);
}

void Vocabulary::embed_backward(const StepContext& context, const Tensor& dtable, const Tensor& dpositions,
                                std::span<const std::int32_t> tokens, const Tensor& dx) const {
  const Arena::Scope scratch(*context.activations);
  const Tensor dx_rows = parallel_->gather_rows(context, dx);
  Tensor dpositions_of_samples = dpositions;  // whose rows begin at position 0
  if (dpositions.defined() && !context.documents.empty()) {
    ops::embedding_backward(context.exec, dpositions, {}, context.documents.positions, dx_rows);
    dpositions_of_samples = {};
  }
  if (parallel_->parts() == 1) return ops::embedding_backward(context.exec, dtable, dpositions_of_samples, tokens, dx);
  const Tensor ids = context.activations->take({dx_rows.shape().rows()}, DType::i32);
  ops::embedding_part_backward(context.exec, dtable, dpositions_of_samples, tokens, dx_rows, ids, part_);
}

void Vocabulary::loss(const StepContext& context, const Tensor& logits, std::span<const std::int32_t> targets,
                      const float* scale) const {
  if (parallel_->parts() == 1) {
    if (scale == nullptr) return ops::cross_entropy_forward(context.exec, context.loss_sum, logits, size_, targets);
    return ops::cross_entropy_forward_backward(context.exec, context.loss_sum, logits, size_, targets, *scale);
  }
  const Arena::Scope scratch(*context.activations);
  const Count rows = logits.shape().rows();
  const Tensor largest = context.take_fp32({rows});
  const Tensor largest_of_all = context.take_fp32({rows});
  const Tensor sums = context.take_fp32({2, rows});
  ops::softmax_statistics(context.exec, largest, sums, logits, targets, part_);
  largest_of_all.copy_from(largest);
  parallel_->max(largest_of_all);
  ops::rescale_sums(context.exec, sums, largest, largest_of_all);
  parallel_->sum(sums);
  ops::cross_entropy_of_sums(context.exec, context.loss_sum, largest_of_all, sums, targets);
  if (scale != nullptr) ops::softmax_gradient(context.exec, logits, largest_of_all, sums, targets, part_, *scale);
}

}  // namespace cohort
