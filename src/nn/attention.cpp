#include "nn/attention.hpp"

namespace cohort {
namespace {

std::vector<LinearSpec> qkv_specs(const std::string& name, const AttentionSpec& spec) {
  const Count head_size = spec.width / spec.heads;
  return {{name + ".query", spec.width, spec.init_std},
          {name + ".key", spec.kv_heads * head_size, spec.init_std},
          {name + ".value", spec.kv_heads * head_size, spec.init_std}};
}

}  // namespace

Attention::Attention(ParameterRegistry& registry, const std::string& name, const AttentionSpec& spec, std::uint32_t layer)
    : spec_(spec),
      layer_(layer),
      qkv_(registry, qkv_specs(name, spec), spec.width, spec.bias),
      output_(registry, {{name + ".output", spec.width, spec.output_std}}, spec.width, spec.bias) {
  if (!spec.rotary) return;
  const Count half = spec.width / spec.heads / 2;
  cosines_ = Tensor::zeros(name + ".cosines", {spec.tokens, half});
  sines_ = Tensor::zeros(name + ".sines", {spec.tokens, half});
  ops::rope_tables(cosines_, sines_, spec.rope_theta);
}

Attention::Saved Attention::forward(const StepContext& context, const Tensor& y, const Tensor& x, Count batch) const {
  Saved saved;
  const Count rows = x.shape().rows();
  saved.shape = {batch, rows / batch, spec_.heads, spec_.kv_heads, spec_.width / spec_.heads};
  const ops::AttentionShape& s = saved.shape;
  saved.qkv = context.take({rows, s.packed_width()});
  saved.heads = context.take({rows, spec_.width});
  saved.lse = context.take({batch, s.heads, s.tokens});
  qkv_.forward(context, saved.qkv, x);
  if (qkv_.has_bias()) ops::add_bias(context.exec, saved.qkv, qkv_.bias());
  if (spec_.rotary) ops::rope_forward(context.exec, s, saved.qkv, cosines_.slice(0, s.tokens), sines_.slice(0, s.tokens));
  {
    const Arena::Scope scratch(*context.activations);
    ops::attention_forward(context.exec, s, saved.heads, saved.lse, saved.qkv, context.take({ops::attention_scratch_elements(s)}),
                           context.dropout_key(spec_.dropout, layer_));
  }
  output_.forward(context, y, saved.heads);
  return saved;
}

void Attention::backward(const StepContext& context, const Tensor& dx, const Tensor& dy, const Tensor& x,
                         const Saved& saved) const {
  const Arena::Scope scratch(*context.activations);
  const ops::AttentionShape& s = saved.shape;
  const Tensor dheads = context.take(saved.heads.shape());
  const Tensor dqkv = context.take(saved.qkv.shape());
  output_.backward(context, dheads, dy, saved.heads);
  ops::attention_backward(context.exec, s, dqkv, dheads, saved.heads, saved.lse, saved.qkv,
                          context.take({ops::attention_scratch_elements(s)}), context.dropout_key(spec_.dropout, layer_));
  if (spec_.rotary) ops::rope_backward(context.exec, s, dqkv, cosines_.slice(0, s.tokens), sines_.slice(0, s.tokens));
  if (qkv_.has_bias()) ops::bias_backward(context.exec, qkv_.bias_gradient(), dqkv);
  qkv_.backward(context, dx, dqkv, x);
}

std::vector<Parameter*> Attention::parameters() const {
  std::vector<Parameter*> all = qkv_.parameters();
  for (Parameter* parameter : output_.parameters()) all.push_back(parameter);
  return all;
}

}  // namespace cohort
