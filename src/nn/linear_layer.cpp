#include "nn/linear_layer.hpp"

#include "nn/rounded.hpp"
#include "ops/fp8_linear.hpp"
#include "ops/linear.hpp"
#include "ops/pointwise.hpp"

namespace cohort {

Linear::Linear(ParameterRegistry& registry, const std::vector<LinearSpec>& specs, Count inputs, bool with_bias,
               TensorParallel& parallel, const LoraSpec& lora)
    : parallel_(&parallel), adapters_(lora) {
  registry.begin_layer();
  for (const LinearSpec& spec : specs) {
    const InitSpec init{InitSpec::Kind::normal, spec.init_std};
    Parameter& weight = registry.declare(spec.name + ".weight", {spec.outputs, inputs}, init, 0, spec.shard);
    weight.partial_gradient = spec.shared;
    weights_.push_back(&weight);
    outputs_ += weight.shape[0];
  }
  inputs_ = weights_.front()->shape[1];
  if (with_bias) declare_biases(registry, specs);
  Count first_column = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    adapters_.add(registry, specs[i].name, *weights_[i], first_column, parallel);
    first_column += weights_[i]->shape[0];
  }
}

void Linear::declare_biases(ParameterRegistry& registry, const std::vector<LinearSpec>& specs) {
  for (const LinearSpec& spec : specs) {
    const ShardSpec shard = sums_outputs() ? parallel_->replicated() : spec.shard;
    Parameter& bias = registry.declare(spec.name + ".bias", {spec.outputs}, {InitSpec::Kind::zeros}, 0, shard);
    bias.partial_gradient = sums_outputs() ? parallel_->sequence() : spec.shared;
    biases_.push_back(&bias);
  }
}

void Linear::forward(const StepContext& context, const Tensor& y, const Tensor& x, const Tensor& residual) const {
  if (sums_outputs()) {
    const Arena::Scope scratch(*context.activations);
    const Tensor sum = residual.defined() ? context.take(y.shape()) : y;
    sum_forward(context, sum, x);
    if (residual.defined() && has_bias()) {
      ops::add_residual(context.exec, y, residual, sum, bias());
    } else if (residual.defined()) {
      ops::add(context.exec, y, residual, sum);
    } else if (has_bias()) {
      ops::add_bias(context.exec, y, bias());
    }
  } else if (residual.defined()) {
    product(context, y, x, bias(), residual);
    adapters_.forward(context, y, x);
  } else {
    product(context, y, x, bias(), {});
    adapters_.forward(context, y, x);
  }
}

void Linear::sum_forward(const StepContext& context, const Tensor& y, const Tensor& x) const {
  parallel_->sum_rows(context, y,
                      [&](const RowBlock& block, const Tensor& terms) { forward_without_bias(context, terms, block.of(x)); });
}

void Linear::forward_without_bias(const StepContext& context, const Tensor& y, const Tensor& x) const {
  product(context, y, x, {}, {});
  adapters_.forward(context, y, x);
}

void Linear::product(const StepContext& context, const Tensor& y, const Tensor& x, const Tensor& with_bias,
                     const Tensor& residual) const {
  if (!context.exec.fp8) {
    if (residual.defined()) return ops::linear_residual_forward(context.exec, y, residual, x, weight(), with_bias);
    return ops::linear_forward(context.exec, y, x, weight(), with_bias);
  }
  const Arena::Scope scratch(*context.activations);
  const ops::Fp8Matrix x8 = rounded(context, x, ops::Fp8::e4m3, Copies::rows);
  const ops::Fp8Matrix weight8 = rounded(context, weight(), ops::Fp8::e4m3, Copies::rows);
  if (residual.defined()) return ops::fp8_linear_residual_forward(context.exec, y, residual, x8, weight8, with_bias);
  ops::fp8_linear_forward(context.exec, y, x8, weight8, with_bias);
}

void Linear::gelu_forward(const StepContext& context, const Tensor& after, const Tensor& before, const Tensor& x) const {
  if (!context.exec.fp8) return ops::linear_gelu_forward(context.exec, after, before, x, weight(), bias());
  const Arena::Scope scratch(*context.activations);
  const ops::Fp8Matrix x8 = rounded(context, x, ops::Fp8::e4m3, Copies::rows);
  const ops::Fp8Matrix weight8 = rounded(context, weight(), ops::Fp8::e4m3, Copies::rows);
  ops::fp8_linear_gelu_forward(context.exec, after, before, x8, weight8, bias());
}

OutputGradient Linear::output_gradient(const StepContext& context, const Tensor& dy) const {
  if (!context.exec.fp8) return dy;
  return {dy, rounded(context, dy, ops::Fp8::e5m2, frozen() ? Copies::rows : Copies::both)};
}

OutputGradient Linear::gather_output_gradient(const StepContext& context, const Tensor& dy, const GradientWork& work) const {
  OutputGradient gradient = parallel_->take_all_rows(context, dy);
  parallel_->gather_rows(gradient.dy, dy, [&](const RowBlock& block, const Tensor& rows) {
    COHORT_CHECK(!context.exec.fp8 || !parallel_->overlap(), "blocks of rows in 8 bits");  // refused by config/fp8_rules.hpp
    if (context.exec.fp8) gradient = output_gradient(context, rows);
    work(block, {rows, gradient.fp8});
  });
  return gradient;
}

void Linear::backward_input(const StepContext& context, const Tensor& dx, const OutputGradient& dy) const {
  if (context.exec.fp8) {
    const Arena::Scope scratch(*context.activations);
    const ops::Fp8Matrix weight8 = rounded(context, weight(), ops::Fp8::e4m3, Copies::transposed);
    ops::fp8_linear_backward_input(context.exec, dx, dy.fp8, weight8);
  } else {
    ops::linear_backward_input(context.exec, dx, dy.dy, weight());
  }
  adapters_.backward_input(context, dx, dy.dy);
}

void Linear::gelu_backward(const StepContext& context, const Tensor& dbefore, const Tensor& dbias, const OutputGradient& dy,
                           const Tensor& before, const Tensor& bias) const {
  if (!context.exec.fp8) return ops::linear_gelu_backward(context.exec, dbefore, dbias, dy.dy, weight(), before, bias);
  const Arena::Scope scratch(*context.activations);
  const ops::Fp8Matrix weight8 = rounded(context, weight(), ops::Fp8::e4m3, Copies::transposed);
  ops::fp8_linear_gelu_backward(context.exec, dbefore, dbias, dy.fp8, weight8, before);
}

void Linear::start_backward_input(const StepContext& context, const Tensor& dx, const OutputGradient& dy) const {
  if (parallel_->overlap()) {
    return parallel_->sum_rows(context, dx, [&](const RowBlock& block, const Tensor& terms) {
      COHORT_CHECK(!context.exec.fp8, "blocks of rows in 8 bits");  // refused by config/fp8_rules.hpp
      backward_input(context, terms, block.of(dy.dy));
    });
  }
  const Tensor terms = parallel_->take_all_rows(context, dx);
  backward_input(context, terms, dy);
  parallel_->start_sum_rows(dx, terms);
}

void Linear::backward_parameters(const StepContext& context, const OutputGradient& dy, const Tensor& x) const {
  backward_weight(context, dy, x, frozen() ? Tensor{} : bias_gradient());
}

void Linear::backward_weight(const StepContext& context, const OutputGradient& dy, const Tensor& x) const {
  backward_weight(context, dy, x, {});
}

void Linear::backward_weight(const StepContext& context, const OutputGradient& dy, const Tensor& x, const Tensor& dbias) const {
  if (!frozen() && context.exec.fp8) {
    const Arena::Scope scratch(*context.activations);
    const ops::Fp8Matrix x8 = rounded(context, x, ops::Fp8::e4m3, Copies::transposed);
    ops::fp8_linear_backward_weight(context.exec, weight_gradient(), dy.fp8, x8);
    if (dbias.defined()) ops::bias_backward(context.exec, dbias, dy.dy);
  } else if (!frozen()) {
    ops::linear_backward_weight(context.exec, weight_gradient(), dbias, dy.dy, x);
  }
  adapters_.backward_parameters(context, dy.dy, x);
}

void Linear::backward_bias(const StepContext& context, const Tensor& dy) const {
  if (has_bias() && !frozen()) ops::bias_backward(context.exec, bias_gradient(), dy);
}

std::vector<Parameter*> Linear::parameters() const {
  std::vector<Parameter*> all = weights_;
  all.insert(all.end(), biases_.begin(), biases_.end());
  const std::vector<Parameter*> adapters = adapters_.parameters();
  all.insert(all.end(), adapters.begin(), adapters.end());
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
