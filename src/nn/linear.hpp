// A linear layer, or several that read the same input and whose weights lie side by side in memory, so that one matrix product
// serves them all: query, key and value; gate and up.
#pragma once

#include <string>
#include <vector>

#include "nn/context.hpp"
#include "tensor/parameter.hpp"

namespace cohort {

struct LinearSpec {
  std::string name;  // parameters are name.weight and name.bias
  Count outputs;     // rows of the weight
  double init_std;   // of the normal initial weights; biases start at 0
};

class Linear {
 public:
  /// Declares name.weight [outputs, inputs] of each spec, then name.bias [outputs] of each if `with_bias`.
  Linear(ParameterRegistry& registry, const std::vector<LinearSpec>& specs, Count inputs, bool with_bias);

  /// y [R, outputs] = x [R, inputs] weight^T + bias, plus `residual` [R, outputs] if defined. y may be residual.
  void forward(const StepContext& context, const Tensor& y, const Tensor& x, const Tensor& residual = {}) const;
  /// y = x weight^T, for callers that fuse the bias with what follows.
  void forward_without_bias(const StepContext& context, const Tensor& y, const Tensor& x) const;
  /// dx [R, inputs] = dy weight.
  void backward_input(const StepContext& context, const Tensor& dx, const Tensor& dy) const;
  /// The gradients of weight and bias += dy^T x and the column sums of dy.
  void backward_parameters(const StepContext& context, const Tensor& dy, const Tensor& x) const;
  /// The bias's gradient alone, if there is a bias: += column sums of dy.
  void backward_bias(const StepContext& context, const Tensor& dy) const;
  /// The weight's gradient alone, where the bias's is a by-product of what follows or precedes.
  void backward_weight(const StepContext& context, const Tensor& dy, const Tensor& x) const;

  /// All weights [outputs, inputs] and biases [outputs] as one tensor, as layers read them; valid after
  /// ParameterRegistry::allocate. Undefined without biases.
  Tensor weight() const { return joined(weights_, &Parameter::compute); }
  Tensor weight_gradient() const { return joined(weights_, &Parameter::gradient); }
  Tensor bias() const { return joined(biases_, &Parameter::compute); }
  Tensor bias_gradient() const { return joined(biases_, &Parameter::gradient); }
  bool has_bias() const { return !biases_.empty(); }

  Count inputs() const { return inputs_; }
  Count outputs() const { return outputs_; }
  /// Weights, then biases.
  std::vector<Parameter*> parameters() const;

 private:
  Tensor joined(const std::vector<Parameter*>& parameters, Tensor Parameter::*tensor) const;

  std::vector<Parameter*> weights_;
  std::vector<Parameter*> biases_;
  Count inputs_;
  Count outputs_ = 0;
};

}  // namespace cohort
