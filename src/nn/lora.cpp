#include "nn/lora.hpp"

#include <cmath>

#include "ops/copy_columns.hpp"
#include "ops/linear.hpp"
#include "ops/pointwise.hpp"

namespace cohort {

void LoraAdapters::add(ParameterRegistry& registry, const std::string& name, const Parameter& weight, Count first_column,
                       TensorParallel& parallel) {
  if (spec_.rank == 0 || !spec_.adapts(weight.name)) return;
  const Count outputs = weight.global_shape[0], inputs = weight.global_shape[1];
  const bool by_inputs = weight.shape[1] < inputs;
  const InitSpec init{InitSpec::Kind::uniform, 1.0 / std::sqrt(static_cast<double>(inputs))};
  Adapter adapter{.a = &registry.declare_adapter(name + ".lora_a", {spec_.rank, inputs}, init,
                                                 by_inputs ? weight.shard : parallel.replicated()),
                  .b = &registry.declare_adapter(name + ".lora_b", {outputs, spec_.rank}, {InitSpec::Kind::zeros},
                                                 by_inputs ? parallel.replicated() : weight.shard),
                  .first_column = first_column};
  // Each part computes a term of the gradient of what it holds whole; and of what others hold, too, as of the weight.
  const bool parts = parallel.parts() > 1;
  adapter.a->partial_gradient = by_inputs ? weight.partial_gradient : parts;
  adapter.b->partial_gradient = by_inputs ? parts : weight.partial_gradient;
  adapters_.push_back(adapter);
}

std::vector<Parameter*> LoraAdapters::parameters() const {
  std::vector<Parameter*> all;
  for (const Adapter& adapter : adapters_) {
    all.push_back(adapter.a);
    all.push_back(adapter.b);
  }
  return all;
}

Tensor LoraAdapters::columns_of(const StepContext& context, const Adapter& adapter, const Tensor& y) {
  if (adapter.columns() == y.shape().columns()) return y;
  const Tensor columns = context.take({y.shape().rows(), adapter.columns()});
  ops::copy_columns(context.exec, columns, 0, y, adapter.first_column, adapter.columns());
  return columns;
}

Tensor LoraAdapters::down(const StepContext& context, const Adapter& adapter, const Tensor& x) const {
  const Tensor low = context.take({x.shape().rows(), spec_.rank});
  ops::linear_forward(context.exec, low, x, adapter.a->compute);
  ops::scale(context.exec, low, scale());
  return low;
}

Tensor LoraAdapters::down_gradient(const StepContext& context, const Adapter& adapter, const Tensor& dy) const {
  const Tensor low = context.take({dy.shape().rows(), spec_.rank});
  ops::linear_backward_input(context.exec, low, columns_of(context, adapter, dy), adapter.b->compute);
  ops::scale(context.exec, low, scale());
  return low;
}

void LoraAdapters::forward(const StepContext& context, const Tensor& y, const Tensor& x) const {
  for (const Adapter& adapter : adapters_) {
    const Arena::Scope scratch(*context.activations);
    const Tensor low = down(context, adapter, x);
    const Tensor columns = columns_of(context, adapter, y);
    ops::linear_residual_forward(context.exec, columns, columns, low, adapter.b->compute);
    if (columns.raw() != y.raw()) ops::copy_columns(context.exec, y, adapter.first_column, columns, 0, adapter.columns());
  }
}

void LoraAdapters::backward_input(const StepContext& context, const Tensor& dx, const Tensor& dy) const {
  for (const Adapter& adapter : adapters_) {
    const Arena::Scope scratch(*context.activations);
    const Tensor term = context.take(dx.shape());
    ops::linear_backward_input(context.exec, term, down_gradient(context, adapter, dy), adapter.a->compute);
    ops::add(context.exec, dx, dx, term);
  }
}

void LoraAdapters::backward_parameters(const StepContext& context, const Tensor& dy, const Tensor& x) const {
  for (const Adapter& adapter : adapters_) {
    const Arena::Scope scratch(*context.activations);
    const Tensor columns = columns_of(context, adapter, dy);
    ops::linear_backward_weight(context.exec, adapter.b->gradient, {}, columns, down(context, adapter, x));
    ops::linear_backward_weight(context.exec, adapter.a->gradient, {}, down_gradient(context, adapter, dy), x);
  }
}

}  // namespace cohort
