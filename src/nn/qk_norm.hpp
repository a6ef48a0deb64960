// RMS normalisation of every query head and every key head before attention (Henry et al. 2020, "Query-Key Normalization for
// Transformers"; with a learned weight as in Qwen3): one weight [HS] for all query heads, one for all key heads.
#pragma once

#include <string>
#include <vector>

#include "nn/norm.hpp"
#include "ops/attention_shape.hpp"

namespace cohort {

class QkNorm {
 public:
  /// Declares name.query_norm.weight and name.key_norm.weight [head_size], whole on every part. Each part has other heads, so it
  /// computes a term of their gradients.
  QkNorm(ParameterRegistry& registry, const std::string& name, Count head_size, double epsilon, const TensorParallel& parallel);

  /// What backward needs: the heads as they were, and their reciprocal deviations.
  struct Saved {
    Tensor query, key;
    Norm::Saved query_norm, key_norm;
  };

  /// Normalises the query and key columns of qkv [B*T, packed] in place. `scratch` [B*T, NH HS] is overwritten.
  Saved forward(const StepContext& context, const ops::AttentionShape& shape, const Tensor& qkv, const Tensor& scratch) const;
  /// The query and key columns of dqkv, gradients of what forward gave, become those of what it got; the weights' gradients are
  /// accumulated. `scratch` [B*T, NH HS] is overwritten, and as much memory is taken from the arena.
  void backward(const StepContext& context, const ops::AttentionShape& shape, const Tensor& dqkv, const Saved& saved,
                const Tensor& scratch) const;

  std::vector<Parameter*> parameters() const;

 private:
  Norm query_, key_;
};

}  // namespace cohort
