// Layer normalisation or RMS normalisation as a layer.
#pragma once

#include <string>
#include <vector>

#include "nn/tensor_parallel.hpp"

namespace cohort {

enum class NormKind { layer, rms };

class Norm {
 public:
  /// Declares name.weight [width] and, for layer normalisation, name.bias [width], whole on every part. With sequence parallelism
  /// the gradients are those of the own rows.
  Norm(ParameterRegistry& registry, const std::string& name, NormKind kind, Count width, double epsilon,
       const TensorParallel& parallel = TensorParallel::none());

  /// What backward needs beside the input: one mean (layer only) and one reciprocal deviation a row.
  struct Saved {
    Tensor mean, rstd;
  };

  /// y [R, C] = norm(x [R, C]).
  Saved forward(const StepContext& context, const Tensor& y, const Tensor& x) const;
  /// dx += gradient with respect to x; parameters' gradients are accumulated.
  void backward(const StepContext& context, const Tensor& dx, const Tensor& dy, const Tensor& x, const Saved& saved) const;

  std::vector<Parameter*> parameters() const;

 private:
  NormKind kind_;
  float epsilon_;
  Parameter* weight_;
  Parameter* bias_ = nullptr;
};

}  // namespace cohort
