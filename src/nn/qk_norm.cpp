#include "nn/qk_norm.hpp"

#include "ops/copy_columns.hpp"

namespace cohort {
namespace {

// Columns of the packed rows that hold heads of one kind.
struct HeadColumns {
  Count rows, first, heads, head_size;

  Count width() const { return heads * head_size; }
  // The first elements of `memory` as these columns, and as one head a row.
  Tensor columns(const Tensor& memory) const {
    return Tensor::wrap(memory.raw(), {rows, width()}, memory.dtype(), memory.device());
  }
  Tensor rows_of_heads(const Tensor& memory) const {
    return Tensor::wrap(memory.raw(), {rows * heads, head_size}, memory.dtype(), memory.device());
  }
};

HeadColumns query_columns(const ops::AttentionShape& s) { return {s.batch * s.tokens, 0, s.heads, s.head_size}; }
HeadColumns key_columns(const ops::AttentionShape& s) { return {s.batch * s.tokens, s.width(), s.kv_heads, s.head_size}; }

Norm::Saved normalize(const StepContext& context, const Norm& norm, const HeadColumns& c, const Tensor& qkv, const Tensor& before,
                      const Tensor& scratch) {
  ops::copy_columns(context.exec, before, 0, qkv, c.first, c.width());
  Norm::Saved saved = norm.forward(context, c.rows_of_heads(scratch), c.rows_of_heads(before));
  ops::copy_columns(context.exec, qkv, c.first, c.columns(scratch), 0, c.width());
  return saved;
}

void normalize_backward(const StepContext& context, const Norm& norm, const HeadColumns& c, const Tensor& dqkv,
                        const Tensor& before, const Norm::Saved& saved, const Tensor& scratch) {
  const Arena::Scope forgotten(*context.activations);
  const Tensor dbefore = context.take({c.rows, c.width()});
  dbefore.zero();  // the norm adds to it
  ops::copy_columns(context.exec, c.columns(scratch), 0, dqkv, c.first, c.width());
  norm.backward(context, c.rows_of_heads(dbefore), c.rows_of_heads(scratch), c.rows_of_heads(before), saved);
  ops::copy_columns(context.exec, dqkv, c.first, dbefore, 0, c.width());
}

}  // namespace

QkNorm::QkNorm(ParameterRegistry& registry, const std::string& name, Count head_size, double epsilon,
               const TensorParallel& parallel)
    : query_(registry, name + ".query_norm", NormKind::rms, head_size, epsilon, parallel),
      key_(registry, name + ".key_norm", NormKind::rms, head_size, epsilon, parallel) {
  for (Parameter* parameter : parameters()) parameter->partial_gradient = parallel.parts() > 1;
}

QkNorm::Saved QkNorm::forward(const StepContext& context, const ops::AttentionShape& shape, const Tensor& qkv,
                              const Tensor& scratch) const {
  const HeadColumns query = query_columns(shape), key = key_columns(shape);
  Saved saved;
  saved.query = context.take({query.rows, query.width()});
  saved.key = context.take({key.rows, key.width()});
  saved.query_norm = normalize(context, query_, query, qkv, saved.query, scratch);
  saved.key_norm = normalize(context, key_, key, qkv, saved.key, scratch);
  return saved;
}

void QkNorm::backward(const StepContext& context, const ops::AttentionShape& shape, const Tensor& dqkv, const Saved& saved,
                      const Tensor& scratch) const {
  normalize_backward(context, query_, query_columns(shape), dqkv, saved.query, saved.query_norm, scratch);
  normalize_backward(context, key_, key_columns(shape), dqkv, saved.key, saved.key_norm, scratch);
}

std::vector<Parameter*> QkNorm::parameters() const {
  std::vector<Parameter*> all = query_.parameters();
  for (Parameter* parameter : key_.parameters()) all.push_back(parameter);
  return all;
}

}  // namespace cohort
