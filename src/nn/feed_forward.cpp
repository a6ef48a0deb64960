#include "nn/feed_forward.hpp"

#include "ops/activation.hpp"

namespace cohort {
namespace {

std::vector<LinearSpec> up_specs(const std::string& name, const FeedForwardSpec& spec, const TensorParallel& parallel) {
  const ShardSpec shard = parallel.split(0, spec.ffn_width);
  const LinearSpec up{name + ".up", spec.ffn_width, spec.init_std, shard};
  if (spec.kind == FeedForwardKind::gelu) return {up};
  return {{name + ".gate", spec.ffn_width, spec.init_std, shard}, up};
}

}  // namespace

FeedForward::FeedForward(ParameterRegistry& registry, const std::string& name, const FeedForwardSpec& spec,
                         TensorParallel& parallel)
    : spec_(spec),
      parallel_(&parallel),
      up_(registry, up_specs(name, spec, parallel), spec.width, spec.kind == FeedForwardKind::gelu, parallel, spec.lora),
      down_(registry, {{name + ".down", spec.width, spec.output_std, parallel.split(1, spec.ffn_width)}}, spec.ffn_width,
            spec.kind == FeedForwardKind::gelu, parallel, spec.lora) {}

FeedForward::Saved FeedForward::up(const StepContext& context, const Tensor& x) const {
  const Count rows = parallel_->all_rows(x.shape().rows());
  const Saved saved{context.take({rows, up_.outputs()}), context.take({rows, down_.inputs()})};
  parallel_->read_rows(context, x, [&](const RowBlock& block, const Tensor& x_rows) {
    const Tensor before = block.of(saved.before), after = block.of(saved.after);
    if (spec_.kind == FeedForwardKind::gelu && !fuses_gelu()) {
      up_.forward_without_bias(context, before, x_rows);
      ops::gelu_forward(context.exec, after, before, up_.bias());
    } else if (spec_.kind == FeedForwardKind::gelu) {
      up_.gelu_forward(context, after, before, x_rows);
    } else {
      up_.forward(context, before, x_rows);
      ops::swiglu_forward(context.exec, after, before);
    }
  });
  return saved;
}

void FeedForward::backward(const StepContext& context, const Tensor& dx, const Tensor& dy, const Tensor& x,
                           const Saved& saved) const {
  const Arena::Scope scratch(*context.activations);
  const Tensor dbefore = context.take(saved.before.shape());
  const Tensor x_rows = parallel_->take_all_rows(context, x);
  {
    const Arena::Scope gathered(*context.activations);
    const auto input_gradient = [&](const RowBlock& block, const OutputGradient& dy_rows) {
      if (block.last) parallel_->start_gather_rows(x_rows, x);  // again: to keep what forward gathered would cost memory
      backward_to_input(context, block.of(dbefore), dy_rows, block.of(saved.before));
    };
    const OutputGradient gradient = down_.gather_output_gradient(context, dy, input_gradient);
    down_.backward_bias(context, dy);
    down_.backward_weight(context, gradient, saved.after);
  }
  parallel_->finish();  // x_rows is there
  const OutputGradient gradient = up_.output_gradient(context, dbefore);
  up_.start_backward_input(context, dx, gradient);
  up_.backward_weight(context, gradient, x_rows);
  parallel_->finish();
}

void FeedForward::backward_to_input(const StepContext& context, const Tensor& dbefore, const OutputGradient& dy,
                                    const Tensor& before) const {
  const Arena::Scope scratch(*context.activations);
  const bool gelu = spec_.kind == FeedForwardKind::gelu;
  const Tensor dbias = gelu && up_.frozen() ? context.take_zeros_fp32(up_.bias().shape()) : up_.bias_gradient();
  if (gelu && fuses_gelu()) return down_.gelu_backward(context, dbefore, dbias, dy, before, up_.bias());
  const Tensor dafter = context.take({before.shape().rows(), down_.inputs()});
  down_.backward_input(context, dafter, dy);
  if (gelu) {
    ops::gelu_backward(context.exec, dbefore, dbias, dafter, before, up_.bias());
  } else {
    ops::swiglu_backward(context.exec, dbefore, dafter, before);
  }
}

std::vector<Parameter*> FeedForward::parameters() const {
  std::vector<Parameter*> all = up_.parameters();
  for (Parameter* parameter : down_.parameters()) all.push_back(parameter);
  return all;
}

}  // namespace cohort
