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

  /// y [R, outputs] = x [R, inputs] weight^T. The bias is left to the caller, who fuses it with what follows.
  void forward(const StepContext& context, const Tensor& y, const Tensor& x) const;
  /// dx [R, inputs] = dy weight (skipped if dx is undefined), and the weight's gradient += dy^T x.
  void backward(const StepContext& context, const Tensor& dx, const Tensor& dy, const Tensor& x) const;

  /// All weights [outputs, inputs] and biases [outputs] as one tensor; valid after ParameterRegistry::allocate.
  Tensor weight() const { return joined(weights_, &Parameter::value); }
  Tensor weight_gradient() const { return joined(weights_, &Parameter::gradient); }
  Tensor bias() const { return joined(biases_, &Parameter::value); }
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
