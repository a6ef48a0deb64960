#include "nn/attention_layer.hpp"

#include <algorithm>

namespace cohort {
namespace {

// The key/value heads that the query heads of this part read.
ShardSpec kv_shard(const AttentionSpec& spec, const TensorParallel& parallel) {
  const Count head_size = spec.head_size;
  if (spec.kv_heads >= parallel.parts()) return parallel.split(0, spec.kv_heads * head_size);
  COHORT_CHECK(parallel.parts() % spec.kv_heads == 0, "{} key/value heads for {} parts", spec.kv_heads, parallel.parts());
  const Count holders = parallel.parts() / spec.kv_heads;
  const Count head = parallel.part() / holders;
  return {.splits = {{0, Axis::tp, head * head_size, (head + 1) * head_size}}, .counts = parallel.part() % holders == 0};
}

std::vector<LinearSpec> qkv_specs(const std::string& name, const AttentionSpec& spec, const TensorParallel& parallel) {
  const Count width = spec.heads * spec.head_size, kv_width = spec.kv_heads * spec.head_size;
  const bool shared = spec.kv_heads < parallel.parts();
  return {{name + ".query", width, spec.init_std, parallel.split(0, width)},
          {name + ".key", kv_width, spec.init_std, kv_shard(spec, parallel), shared},
          {name + ".value", kv_width, spec.init_std, kv_shard(spec, parallel), shared}};
}

// What rope is told: with documents each row has its own position, as if all were of one sample.
ops::AttentionShape rotated_shape(const StepContext& context, const ops::AttentionShape& s) {
  if (context.documents.empty()) return s;
  return {1, s.batch * s.tokens, s.heads, s.kv_heads, s.head_size};
}

Tensor take_scratch(const StepContext& context, const ops::AttentionShape& shape) {
  return context.take_bytes(ops::attention_scratch_bytes(context.exec, shape, context.dtype));
}

}  // namespace

Attention::Attention(ParameterRegistry& registry, const std::string& name, const AttentionSpec& spec, std::uint32_t layer,
                     TensorParallel& parallel)
    : spec_(spec),
      parallel_(&parallel),
      heads_(parallel.share(spec.heads)),
      kv_heads_(std::max<Count>(1, spec.kv_heads / parallel.parts())),
      layer_(layer),
      qkv_(registry, qkv_specs(name, spec, parallel), spec.width, spec.bias, parallel, spec.lora),
      output_(registry, {{name + ".output", spec.width, spec.output_std, parallel.split(1, spec.heads * spec.head_size)}},
              spec.heads * spec.head_size, spec.bias, parallel, spec.lora) {
  if (spec.qk_norm) qk_norm_.emplace(registry, name, spec.head_size, spec.norm_epsilon, parallel);
}

ops::DropoutKey Attention::dropout_key(const StepContext& context) const {
  ops::DropoutKey key = context.dropout_key(spec_.dropout, layer_);
  key.first_head = parallel_->part() * heads_;
  key.all_heads = spec_.heads;
  return key;
}

ops::AttentionShape Attention::shape_of(const StepContext& context, Count batch, Count rows) const {
  if (context.cache != nullptr) return shape(1, rows);
  ops::AttentionShape s = shape(batch, rows / batch);
  if (context.documents.empty()) return s;
  const Count whole = context.sequence != nullptr ? context.sequence->rows().tokens : s.tokens;
  COHORT_CHECK(static_cast<Count>(context.documents.first_keys.size()) == batch * whole &&
                   static_cast<Count>(context.documents.positions.size()) == rows,
               "documents of {} tokens, {} of them here, for {} samples of {} tokens", context.documents.first_keys.size(),
               context.documents.positions.size(), batch, whole);
  s.first_keys = context.documents.first_keys.data();
  return s;
}

Attention::RopeTables Attention::rope_tables(const StepContext& context, Count tokens) const {
  if (!tables_.cosines.defined()) {
    const Shape shape{spec_.tokens, spec_.head_size / 2};
    const RopeTables host{Tensor::zeros("rope.cosines", shape), Tensor::zeros("rope.sines", shape)};
    ops::rope_tables(host.cosines, host.sines, spec_.rope);
    tables_ = {host.cosines.to(context.exec.device, "rope.cosines"), host.sines.to(context.exec.device, "rope.sines")};
  }
  return {position_rows(context, tables_.cosines, tokens), position_rows(context, tables_.sines, tokens)};
}

Attention::Result Attention::take_result(const StepContext& context, const Tensor& x, Count batch) const {
  const Count rows = parallel_->all_rows(x.shape().rows());
  const ops::AttentionShape s = shape_of(context, batch, rows);
  return {context.take({rows, s.width()}), context.take_fp32({s.batch, s.heads, s.tokens})};
}

Attention::Saved Attention::project(const StepContext& context, const Tensor& x, Count batch, const Tensor& scratch) const {
  Saved saved;
  const Count rows = parallel_->all_rows(x.shape().rows());
  saved.shape = shape_of(context, batch, rows);
  const ops::AttentionShape& s = saved.shape;
  saved.qkv = context.take({rows, s.packed_width()});
  parallel_->read_rows(context, x,
                       [&](const RowBlock& block, const Tensor& x_rows) { qkv_.forward(context, block.of(saved.qkv), x_rows); });
  if (qk_norm_) saved.qk_norm = qk_norm_->forward(context, s, saved.qkv, scratch);
  if (spec_.rotary) {
    const Arena::Scope forgotten(*context.activations);
    const ops::AttentionShape rotated = rotated_shape(context, s);
    const RopeTables tables = rope_tables(context, rotated.tokens);
    ops::rope_forward(context.exec, rotated, saved.qkv, tables.cosines, tables.sines);
  }
  return saved;
}

Attention::Saved Attention::forward(const StepContext& context, const Tensor& y, const Tensor& x, Count batch,
                                    const Tensor& residual, const Result& result) const {
  Saved saved = project(context, x, batch, /*scratch=*/result.heads);
  saved.result = result;
  attend(context, saved);
  output_.forward(context, y, result.heads, residual);
  return saved;
}

Attention::Saved Attention::forward_again(const StepContext& context, const Tensor& y, const Tensor& x, Count batch,
                                          const Tensor& residual, const Result& result) const {
  Saved saved = project(context, x, batch, qk_norm_ ? context.take(result.heads.shape()) : Tensor{});
  saved.result = result;
  output_.forward(context, y, result.heads, residual);
  return saved;
}

void Attention::attend(const StepContext& context, const Saved& saved) const {
  const ops::AttentionShape& s = saved.shape;
  const auto& [heads, lse] = saved.result;
  if (context.sequence != nullptr) {
    context.sequence->attention_forward(context, s, heads, lse, saved.qkv, dropout_key(context));
    return;
  }
  const Arena::Scope scratch(*context.activations);
  if (const KvCache* cache = context.cache; cache != nullptr) {
    const ops::CachedHeads& kept = cache->layer(context.cache_layer);
    ops::cache_append(context.exec, s, kept, saved.qkv, cache->places());
    if (!cache->prompt()) {
      const Tensor partials = context.take_fp32({ops::cached_attention_scratch(s, cache->places())});
      return ops::cached_attention(context.exec, s, heads, saved.qkv, kept, cache->places(), partials);
    }
  }
  ops::attention_forward(context.exec, s, heads, lse, saved.qkv, take_scratch(context, s), dropout_key(context));
}

void Attention::backward(const StepContext& context, const Tensor& dx, const Tensor& dy, const Tensor& x,
                         const Saved& saved) const {
  const Arena::Scope scratch(*context.activations);
  const ops::AttentionShape& s = saved.shape;
  const auto& [heads, lse] = saved.result;
  const Tensor dheads = context.take(heads.shape());
  const Tensor dqkv = context.take(saved.qkv.shape());
  const Tensor x_rows = parallel_->take_all_rows(context, x);
  {
    const Arena::Scope gathered(*context.activations);
    const auto input_gradient = [&](const RowBlock& block, const OutputGradient& dy_rows) {
      if (block.last) parallel_->start_gather_rows(x_rows, x);  // again: to keep what forward gathered would cost memory
      output_.backward_input(context, block.of(dheads), dy_rows);
    };
    const OutputGradient gradient = output_.gather_output_gradient(context, dy, input_gradient);
    output_.backward_bias(context, dy);
    output_.backward_weight(context, gradient, heads);
  }
  if (context.sequence != nullptr) {
    context.sequence->attention_backward(context, s, dqkv, dheads, heads, lse, saved.qkv, dropout_key(context));
  } else {
    ops::attention_backward(context.exec, s, dqkv, dheads, heads, lse, saved.qkv, take_scratch(context, s), dropout_key(context));
  }
  if (spec_.rotary) {
    const ops::AttentionShape rotated = rotated_shape(context, s);
    const RopeTables tables = rope_tables(context, rotated.tokens);
    ops::rope_backward(context.exec, rotated, dqkv, tables.cosines, tables.sines);
  }
  if (qk_norm_) qk_norm_->backward(context, s, dqkv, saved.qk_norm, /*scratch=*/dheads);
  parallel_->finish();  // x_rows is there
  const OutputGradient gradient = qkv_.output_gradient(context, dqkv);
  qkv_.start_backward_input(context, dx, gradient);
  qkv_.backward_parameters(context, gradient, x_rows);
  parallel_->finish();
}

std::vector<Parameter*> Attention::parameters() const {
  std::vector<Parameter*> all = qkv_.parameters();
  for (Parameter* parameter : output_.parameters()) all.push_back(parameter);
  if (qk_norm_) {
    for (Parameter* parameter : qk_norm_->parameters()) all.push_back(parameter);
  }
  return all;
}

}  // namespace cohort
