#include "nn/feed_forward.hpp"

#include "ops/activation.hpp"

namespace cohort {
namespace {

std::vector<LinearSpec> up_specs(const std::string& name, const FeedForwardSpec& spec) {
  if (spec.kind == FeedForwardKind::gelu) return {{name + ".up", spec.ffn_width, spec.init_std}};
  return {{name + ".gate", spec.ffn_width, spec.init_std}, {name + ".up", spec.ffn_width, spec.init_std}};
}

}  // namespace

FeedForward::FeedForward(ParameterRegistry& registry, const std::string& name, const FeedForwardSpec& spec)
    : spec_(spec),
      up_(registry, up_specs(name, spec), spec.width, spec.kind == FeedForwardKind::gelu),
      down_(registry, {{name + ".down", spec.width, spec.output_std}}, spec.ffn_width, spec.kind == FeedForwardKind::gelu) {}

FeedForward::Saved FeedForward::forward(const StepContext& context, const Tensor& y, const Tensor& x) const {
  const Count rows = x.shape().rows();
  const Saved saved{context.take({rows, up_.outputs()}), context.take({rows, spec_.ffn_width})};
  up_.forward(context, saved.before, x);
  if (spec_.kind == FeedForwardKind::gelu) {
    ops::gelu_forward(context.exec, saved.after, saved.before, up_.bias());
  } else {
    ops::swiglu_forward(context.exec, saved.after, saved.before);
  }
  down_.forward(context, y, saved.after);
  return saved;
}

void FeedForward::backward(const StepContext& context, const Tensor& dx, const Tensor& dy, const Tensor& x,
                           const Saved& saved) const {
  const Arena::Scope scratch(*context.activations);
  const Tensor dafter = context.take(saved.after.shape());
  down_.backward(context, dafter, dy, saved.after);
  if (spec_.kind == FeedForwardKind::gelu) {
    ops::gelu_backward(context.exec, dafter, up_.bias_gradient(), dafter, saved.before, up_.bias());
    up_.backward(context, dx, dafter, x);
  } else {
    const Tensor dbefore = context.take(saved.before.shape());
    ops::swiglu_backward(context.exec, dbefore, dafter, saved.before);
    up_.backward(context, dx, dbefore, x);
  }
}

std::vector<Parameter*> FeedForward::parameters() const {
  std::vector<Parameter*> all = up_.parameters();
  for (Parameter* parameter : down_.parameters()) all.push_back(parameter);
  return all;
}

}  // namespace cohort
