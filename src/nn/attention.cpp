#include "nn/attention.hpp"

namespace cohort {
namespace {

std::vector<LinearSpec> qkv_specs(const std::string& name, const AttentionSpec& spec) {
  const Count head_size = spec.width / spec.heads;
  return {{name + ".query", spec.width, spec.init_std},
          {name + ".key", spec.kv_heads * head_size, spec.init_std},
          {name + ".value", spec.kv_heads * head_size, spec.init_std}};
}

Tensor take_scratch(const StepContext& context, const ops::AttentionShape& shape) {
  return context.take_bytes(ops::attention_scratch_bytes(context.exec.device, shape, context.dtype));
}

}  // namespace

Attention::Attention(ParameterRegistry& registry, const std::string& name, const AttentionSpec& spec, std::uint32_t layer)
    : spec_(spec),
      layer_(layer),
      qkv_(registry, qkv_specs(name, spec), spec.width, spec.bias),
      output_(registry, {{name + ".output", spec.width, spec.output_std}}, spec.width, spec.bias) {}

Attention::RopeTables Attention::rope_tables(const StepContext& context, Count tokens) const {
  if (!tables_.cosines.defined()) {
    const Shape shape{spec_.tokens, spec_.width / spec_.heads / 2};
    const RopeTables host{Tensor::zeros("rope.cosines", shape), Tensor::zeros("rope.sines", shape)};
    ops::rope_tables(host.cosines, host.sines, spec_.rope_theta);
    tables_ = {host.cosines.to(context.exec.device, "rope.cosines"), host.sines.to(context.exec.device, "rope.sines")};
  }
  return {position_rows(context, tables_.cosines, tokens), position_rows(context, tables_.sines, tokens)};
}

Attention::Saved Attention::forward(const StepContext& context, const Tensor& y, const Tensor& x, Count batch,
                                    const Tensor& residual) const {
  Saved saved;
  const Count rows = x.shape().rows();
  saved.shape = {batch, rows / batch, spec_.heads, spec_.kv_heads, spec_.width / spec_.heads};
  const ops::AttentionShape& s = saved.shape;
  saved.qkv = context.take({rows, s.packed_width()});
  saved.heads = context.take({rows, spec_.width});
  saved.lse = context.take_fp32({batch, s.heads, s.tokens});
  qkv_.forward(context, saved.qkv, x);
  if (spec_.rotary) {
    const Arena::Scope scratch(*context.activations);
    const RopeTables tables = rope_tables(context, s.tokens);
    ops::rope_forward(context.exec, s, saved.qkv, tables.cosines, tables.sines);
  }
  const ops::DropoutKey dropout_key = context.dropout_key(spec_.dropout, layer_);
  if (context.sequence != nullptr) {
    context.sequence->attention_forward(context, s, saved.heads, saved.lse, saved.qkv, dropout_key);
  } else {
    const Arena::Scope scratch(*context.activations);
    ops::attention_forward(context.exec, s, saved.heads, saved.lse, saved.qkv, take_scratch(context, s), dropout_key);
  }
  output_.forward(context, y, saved.heads, residual);
  return saved;
}

void Attention::backward(const StepContext& context, const Tensor& dx, const Tensor& dy, const Tensor& x,
                         const Saved& saved) const {
  const Arena::Scope scratch(*context.activations);
  const ops::AttentionShape& s = saved.shape;
  const Tensor dheads = context.take(saved.heads.shape());
  const Tensor dqkv = context.take(saved.qkv.shape());
  output_.backward_weight(context, dy, saved.heads);
  output_.backward_input(context, dheads, dy);
  const ops::DropoutKey dropout_key = context.dropout_key(spec_.dropout, layer_);
  if (context.sequence != nullptr) {
    context.sequence->attention_backward(context, s, dqkv, dheads, saved.heads, saved.lse, saved.qkv, dropout_key);
  } else {
    ops::attention_backward(context.exec, s, dqkv, dheads, saved.heads, saved.lse, saved.qkv, take_scratch(context, s),
                            dropout_key);
  }
  if (spec_.rotary) {
    const RopeTables tables = rope_tables(context, s.tokens);
    ops::rope_backward(context.exec, s, dqkv, tables.cosines, tables.sines);
  }
  qkv_.backward_parameters(context, dqkv, x);
  qkv_.backward_input(context, dx, dqkv);
}

std::vector<Parameter*> Attention::parameters() const {
  std::vector<Parameter*> all = qkv_.parameters();
  for (Parameter* parameter : output_.parameters()) all.push_back(parameter);
  return all;
}

}  // namespace cohort
