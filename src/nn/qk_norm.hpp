// RMS normalisation of every query head and every key head before attention (Henry et al. 2020, "Query-Key Normalization for
// Transformers"; with a learned weight as in Qwen3): one weight [HS] for all query heads, one for all key heads.
//
// The heads are copied out of the packed rows and back, since the norm kernels of both back ends take rows without gaps, which
// they read 16 bytes at a time. Forward needs the copy out anyway: attention takes the normalised heads where those that backward
// wants lay. A row stride of the norm kernels would save the copy back, and both of backward: a few bytes of each head, beside
// products that move and compute far more.
#pragma once

#include <string>
#include <vector>

#include "nn/norm_layer.hpp"
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
