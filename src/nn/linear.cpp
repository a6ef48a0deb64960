#include "nn/linear.hpp"

#include "ops/gemm.hpp"

namespace cohort {

using ops::as_matrix;
using ops::Transpose;

Linear::Linear(ParameterRegistry& registry, const std::vector<LinearSpec>& specs, Count inputs, bool with_bias)
    : inputs_(inputs) {
  for (const LinearSpec& spec : specs) {
    weights_.push_back(&registry.declare(spec.name + ".weight", {spec.outputs, inputs}, {InitSpec::Kind::normal, spec.init_std}));
    outputs_ += spec.outputs;
  }
  if (!with_bias) return;
  for (const LinearSpec& spec : specs)
    biases_.push_back(&registry.declare(spec.name + ".bias", {spec.outputs}, {InitSpec::Kind::zeros}));
}

void Linear::forward(const StepContext& context, const Tensor& y, const Tensor& x) const {
  ops::gemm(context.exec, as_matrix(y), as_matrix(x), Transpose::no, as_matrix(weight()), Transpose::yes);
}

void Linear::backward(const StepContext& context, const Tensor& dx, const Tensor& dy, const Tensor& x) const {
  ops::gemm(context.exec, as_matrix(weight_gradient()), as_matrix(dy), Transpose::yes, as_matrix(x), Transpose::no, 1.0f, 1.0f);
  if (dx.defined()) ops::gemm(context.exec, as_matrix(dx), as_matrix(dy), Transpose::no, as_matrix(weight()), Transpose::no);
}

std::vector<Parameter*> Linear::parameters() const {
  std::vector<Parameter*> all = weights_;
  all.insert(all.end(), biases_.begin(), biases_.end());
  return all;
}

Tensor Linear::joined(const std::vector<Parameter*>& parameters, Tensor Parameter::*tensor) const {
  // The registry lays parameters out in the order of declaration, so those of one call to the constructor are neighbours.
  const Tensor& first = parameters.front()->*tensor;
  std::vector<Count> dims = first.shape().vector();
  dims[0] = outputs_;
  return Tensor::wrap(first.raw(), Shape(dims), first.dtype());
}

}  // namespace cohort
