#include "models/mlp/mlp.hpp"

#include <cmath>

#include "base/counting_listener.hpp"
#include "ops/activation.hpp"
#include "ops/cross_entropy.hpp"
#include "tensor/convert.hpp"

namespace cohort {
namespace {

// Keeps the variance of the signal through ReLU layers (He et al. 2015).
double he_std(Count inputs) { return std::sqrt(2.0 / static_cast<double>(inputs)); }

}  // namespace

Mlp::Mlp(const ModelSection& config, const ModelStorage& storage)
    : Model(config.kind, storage), inputs_(config.inputs), classes_(config.classes) {
  Count inputs = config.inputs;
  for (Count layer = 0; layer < config.layers; ++layer) {
    const std::string name = fmt::format("layers.{}", layer);
    layers_.emplace_back(registry_, std::vector<LinearSpec>{{name, config.width, he_std(inputs)}}, inputs, true);
    units_.push_back({name, layers_.back().parameters()});
    inputs = config.width;
  }
  layers_.emplace_back(registry_, std::vector<LinearSpec>{{"head", config.classes, he_std(inputs)}}, inputs, true);
  layers_.back().parameters().front()->role = ParameterRole::head;
  units_.push_back({"head", layers_.back().parameters()});
}

Tensor Mlp::features(const StepContext& context, const ModelInput& input) const {
  // The ops only read it; Tensor has no read-only form.
  Tensor given =
      Tensor::wrap(const_cast<float*>(input.features.data()), {input.samples, inputs_}, DType::f32, context.exec.device);
  if (context.dtype == DType::f32) return given;
  Tensor converted = context.take(given.shape());
  convert(converted, given);
  return converted;
}

Tensor Mlp::run(const StepContext& context, const ModelInput& input, Hooks& hooks, Saved* saved) {
  Tensor x = features(context, input);
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    const Linear& linear = layers_[layer];
    note_unit(units_[layer].name, /*backward=*/false);
    hooks.pre_forward(units_[layer]);
    context.show_life();
    const Tensor product = context.take({input.samples, linear.outputs()});
    linear.forward_without_bias(context, product, x);
    if (saved != nullptr) saved->inputs.push_back(x);
    if (layer + 1 == layers_.size()) {
      ops::add_bias(context.exec, product, linear.bias());
      x = product;
    } else {
      const Tensor out = context.take(product.shape());
      ops::relu_forward(context.exec, out, product, linear.bias());
      if (saved != nullptr) saved->products.push_back(product);
      x = out;
    }
    if (context.inspect) context.inspect(units_[layer].name, x);
    hooks.post_forward(units_[layer]);
  }
  return x;
}

void Mlp::forward(const StepContext& context, const ModelInput& input, float gradient_scale, Hooks& hooks) {
  saved_ = {};
  saved_.dlogits = run(context, input, hooks, &saved_);
  ops::cross_entropy_forward_backward(context.exec, context.loss_sum, saved_.dlogits, classes_, input.targets, gradient_scale);
}

void Mlp::backward(const StepContext& context, const ModelInput&, Hooks& hooks) {
  const Arena::Scope scratch(*context.activations);
  Tensor dy = saved_.dlogits;
  for (std::size_t layer = layers_.size(); layer-- > 0;) {
    const Linear& linear = layers_[layer];
    note_unit(units_[layer].name, /*backward=*/true);
    hooks.pre_backward(units_[layer]);
    context.show_life();
    hooks.pre_gradient(units_[layer]);
    if (layer + 1 == layers_.size()) {
      ops::bias_backward(context.exec, linear.bias_gradient(), dy);
    } else {
      ops::relu_backward(context.exec, dy, linear.bias_gradient(), dy, saved_.products[layer], linear.bias());
    }
    linear.backward_weight(context, dy, saved_.inputs[layer]);
    const Tensor dx = layer == 0 ? Tensor{} : context.take(saved_.inputs[layer].shape());
    if (dx.defined()) linear.backward_input(context, dx, dy);
    for (Parameter* parameter : units_[layer].parameters) hooks.grad_ready(*parameter);
    dy = dx;
  }
  note_unit("", /*backward=*/true);
  hooks.end_pass();
}

void Mlp::loss(const StepContext& context, const ModelInput& input, Hooks& hooks) {
  const Arena::Scope scratch(*context.activations);
  ops::cross_entropy_forward(context.exec, context.loss_sum, run(context, input, hooks, nullptr), classes_, input.targets);
  hooks.end_pass();
}

void Mlp::last_logits(const StepContext& context, const ModelInput& input, const Tensor& logits, Hooks& hooks) {
  const Arena::Scope scratch(*context.activations);
  logits.copy_from(to_host_fp32(run(context, input, hooks, nullptr)));
  hooks.end_pass();
}

double Mlp::flops_per_token(Count) const { return 6.0 * static_cast<double>(registry_.elements()); }

}  // namespace cohort
