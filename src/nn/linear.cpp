#include "nn/linear.hpp"

#include "ops/linear.hpp"
#include "ops/pointwise.hpp"

namespace cohort {

Linear::Linear(ParameterRegistry& registry, const std::vector<LinearSpec>& specs, Count inputs, bool with_bias)
    : inputs_(inputs) {
  registry.begin_layer();
  for (const LinearSpec& spec : specs) {
    weights_.push_back(&registry.declare(spec.name + ".weight", {spec.outputs, inputs}, {InitSpec::Kind::normal, spec.init_std}));
    outputs_ += spec.outputs;
  }
  if (!with_bias) return;
  for (const LinearSpec& spec : specs)
    biases_.push_back(&registry.declare(spec.name + ".bias", {spec.outputs}, {InitSpec::Kind::zeros}));
}

void Linear::forward(const StepContext& context, const Tensor& y, const Tensor& x, const Tensor& residual) const {
  if (residual.defined()) {
    ops::linear_residual_forward(context.exec, y, residual, x, weight(), bias());
  } else {
    ops::linear_forward(context.exec, y, x, weight(), bias());
  }
}

void Linear::forward_without_bias(const StepContext& context, const Tensor& y, const Tensor& x) const {
  ops::linear_forward(context.exec, y, x, weight());
}

void Linear::backward_input(const StepContext& context, const Tensor& dx, const Tensor& dy) const {
  ops::linear_backward_input(context.exec, dx, dy, weight());
}

void Linear::backward_parameters(const StepContext& context, const Tensor& dy, const Tensor& x) const {
  ops::linear_backward_weight(context.exec, weight_gradient(), bias_gradient(), dy, x);
}

void Linear::backward_bias(const StepContext& context, const Tensor& dy) const {
  if (has_bias()) ops::bias_backward(context.exec, bias_gradient(), dy);
}

void Linear::backward_weight(const StepContext& context, const Tensor& dy, const Tensor& x) const {
  ops::linear_backward_weight(context.exec, weight_gradient(), {}, dy, x);
}

std::vector<Parameter*> Linear::parameters() const {
  std::vector<Parameter*> all = weights_;
  all.insert(all.end(), biases_.begin(), biases_.end());
  return all;
}

Tensor Linear::joined(const std::vector<Parameter*>& parameters, Tensor Parameter::*tensor) const {
  if (parameters.empty()) return {};
  // The registry lays parameters out in the order of declaration, so those of one call to the constructor are neighbours.
  const Tensor& first = parameters.front()->*tensor;
  std::vector<Count> dims = first.shape().vector();
  dims[0] = outputs_;
  return Tensor::wrap(first.raw(), Shape(dims), first.dtype(), first.device());
}

}  // namespace cohort
