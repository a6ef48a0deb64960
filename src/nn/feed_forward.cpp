#include "nn/feed_forward.hpp"

#include "ops/activation.hpp"
#include "ops/linear.hpp"

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

FeedForward::Saved FeedForward::forward(const StepContext& context, const Tensor& y, const Tensor& x,
                                        const Tensor& residual) const {
  const Count rows = x.shape().rows();
  const Saved saved{context.take({rows, up_.outputs()}), context.take({rows, spec_.ffn_width})};
  if (spec_.kind == FeedForwardKind::gelu) {
    ops::linear_gelu_forward(context.exec, saved.after, saved.before, x, up_.weight(), up_.bias());
  } else {
    up_.forward(context, saved.before, x);
    ops::swiglu_forward(context.exec, saved.after, saved.before);
  }
  down_.forward(context, y, saved.after, residual);
  return saved;
}

void FeedForward::backward(const StepContext& context, const Tensor& dx, const Tensor& dy, const Tensor& x,
                           const Saved& saved) const {
  const Arena::Scope scratch(*context.activations);
  const Tensor dbefore = context.take(saved.before.shape());
  down_.backward_weight(context, dy, saved.after);
  if (spec_.kind == FeedForwardKind::gelu) {
    ops::linear_gelu_backward(context.exec, dbefore, up_.bias_gradient(), dy, down_.weight(), saved.before, up_.bias());
  } else {
    const Tensor dafter = context.take(saved.after.shape());
    down_.backward_input(context, dafter, dy);
    ops::swiglu_backward(context.exec, dbefore, dafter, saved.before);
  }
  up_.backward_weight(context, dbefore, x);
  up_.backward_input(context, dx, dbefore);
}

std::vector<Parameter*> FeedForward::parameters() const {
  std::vector<Parameter*> all = up_.parameters();
  for (Parameter* parameter : down_.parameters()) all.push_back(parameter);
  return all;
}

}  // namespace cohort
