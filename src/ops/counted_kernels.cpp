#include "ops/counted_kernels.hpp"

#include <initializer_list>
#include <string_view>

#include "base/work_tape.hpp"

namespace cohort::ops::counted {
namespace {

double bytes_of(std::initializer_list<const Tensor*> tensors) {
  Bytes bytes = 0;
  for (const Tensor* tensor : tensors) {
    if (tensor->defined()) bytes += tensor->bytes();
  }
  return static_cast<double>(bytes);
}

void note(const OpWork& work) { WorkTape::of_thread()->add(work); }

// Each element of the tensors once; `of` is the one whose rows and columns say how large the call is.
void note_pointwise(std::string_view op, const Tensor& of, std::initializer_list<const Tensor*> tensors,
                    OpKind kind = OpKind::pointwise) {
  note({.op = op,
        .kind = kind,
        .dtype = of.dtype(),
        .m = of.shape().rows(),
        .n = of.shape().columns(),
        .bytes = bytes_of(tensors)});
}

// C [m, n] = A [m, k] B [k, n], where A or B is `operand`.
void note_product(std::string_view op, const Exec& exec, const Tensor& operand, Count m, Count n, Count k,
                  std::initializer_list<const Tensor*> tensors) {
  const auto flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  note({op, OpKind::product, operand.dtype(), exec.tf32, m, n, k, flops, bytes_of(tensors)});
}

// Products of tiles: `products` of them for each pair of a query and a key that it sees, 2 HS operations each.
void note_attention(std::string_view op, const Tensor& qkv, const AttentionShape& shape, Count pairs_of_head, double products,
                    std::initializer_list<const Tensor*> tensors) {
  const Count heads = shape.batch * shape.heads;
  const double flops =
      products * 2.0 * static_cast<double>(shape.head_size) * static_cast<double>(heads) * static_cast<double>(pairs_of_head);
  note({op, OpKind::attention, qkv.dtype(), false, heads, shape.tokens, shape.head_size, flops, bytes_of(tensors)});
}

Count causal_pairs(const AttentionShape& shape) { return shape.tokens * (shape.tokens + 1) / 2; }

constexpr double kForwardProducts = 2.0;   // scores, and their product with the values
constexpr double kBackwardProducts = 5.0;  // scores again, and the four gradients (Dao 2023, "FlashAttention-2", section 3.1)

void linear_forward(const Exec& exec, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  note_product("linear_forward", exec, x, x.shape().rows(), weight.shape()[0], x.shape().columns(), {&y, &x, &weight, &bias});
}

void linear_residual_forward(const Exec& exec, const Tensor& y, const Tensor& residual, const Tensor& x, const Tensor& weight,
                             const Tensor& bias) {
  note_product("linear_residual_forward", exec, x, x.shape().rows(), weight.shape()[0], x.shape().columns(),
               {&y, &residual, &x, &weight, &bias});
}

void linear_gelu_forward(const Exec& exec, const Tensor& after, const Tensor& before, const Tensor& x, const Tensor& weight,
                         const Tensor& bias) {
  note_product("linear_gelu_forward", exec, x, x.shape().rows(), weight.shape()[0], x.shape().columns(),
               {&after, &before, &x, &weight, &bias});
}

void linear_backward_input(const Exec& exec, const Tensor& dx, const Tensor& dy, const Tensor& weight) {
  note_product("linear_backward_input", exec, dy, dy.shape().rows(), dx.shape().columns(), weight.shape()[0],
               {&dx, &dy, &weight});
}

void linear_gelu_backward(const Exec& exec, const Tensor& dbefore, const Tensor& dbias, const Tensor& dy, const Tensor& weight,
                          const Tensor& before, const Tensor& bias) {
  note_product("linear_gelu_backward", exec, dy, dy.shape().rows(), dbefore.shape().columns(), weight.shape()[0],
               {&dbefore, &dbias, &dy, &weight, &before, &bias});
}

// The sums that it adds to are read and written.
void linear_backward_weight(const Exec& exec, const Tensor& dweight, const Tensor& dbias, const Tensor& dy, const Tensor& x) {
  note_product("linear_backward_weight", exec, x, dweight.shape()[0], dweight.shape().columns(), x.shape().rows(),
               {&dweight, &dweight, &dbias, &dy, &x});
}

// The matrix is read twice, the second time to be rounded.
void fp8_quantize(const Exec&, const Fp8Matrix& to, const Tensor& x) {
  note_pointwise("fp8_quantize", x, {&x, &x, &to.rows, &to.transposed});
}

void fp8_linear_forward(const Exec& exec, const Tensor& y, const Fp8Matrix& x, const Fp8Matrix& weight, const Tensor& bias) {
  note_product("fp8_linear_forward", exec, x.rows, x.rows.shape().rows(), weight.rows.shape()[0], x.rows.shape().columns(),
               {&y, &x.rows, &weight.rows, &bias});
}

void fp8_linear_residual_forward(const Exec& exec, const Tensor& y, const Tensor& residual, const Fp8Matrix& x,
                                 const Fp8Matrix& weight, const Tensor& bias) {
  note_product("fp8_linear_residual_forward", exec, x.rows, x.rows.shape().rows(), weight.rows.shape()[0],
               x.rows.shape().columns(), {&y, &residual, &x.rows, &weight.rows, &bias});
}

void fp8_linear_gelu_forward(const Exec& exec, const Tensor& after, const Tensor& before, const Fp8Matrix& x,
                             const Fp8Matrix& weight, const Tensor& bias) {
  note_product("fp8_linear_gelu_forward", exec, x.rows, x.rows.shape().rows(), weight.rows.shape()[0], x.rows.shape().columns(),
               {&after, &before, &x.rows, &weight.rows, &bias});
}

void fp8_linear_backward_input(const Exec& exec, const Tensor& dx, const Fp8Matrix& dy, const Fp8Matrix& weight) {
  note_product("fp8_linear_backward_input", exec, dy.rows, dy.rows.shape().rows(), dx.shape().columns(),
               dy.rows.shape().columns(), {&dx, &dy.rows, &weight.transposed});
}

void fp8_linear_gelu_backward(const Exec& exec, const Tensor& dbefore, const Tensor& dbias, const Fp8Matrix& dy,
                              const Fp8Matrix& weight, const Tensor& before) {
  note_product("fp8_linear_gelu_backward", exec, dy.rows, dy.rows.shape().rows(), dbefore.shape().columns(),
               dy.rows.shape().columns(), {&dbefore, &dbias, &dy.rows, &weight.transposed, &before});
}

void fp8_linear_backward_weight(const Exec& exec, const Tensor& dweight, const Fp8Matrix& dy, const Fp8Matrix& x) {
  note_product("fp8_linear_backward_weight", exec, x.transposed, dweight.shape()[0], dweight.shape().columns(),
               x.transposed.shape().columns(), {&dweight, &dweight, &dy.transposed, &x.transposed});
}

void attention_forward(const Exec&, const AttentionShape& shape, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                       const Tensor&, const DropoutKey&) {
  note_attention("attention_forward", qkv, shape, causal_pairs(shape), kForwardProducts, {&out, &lse, &qkv});
}

void attention_backward(const Exec&, const AttentionShape& shape, const Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, const Tensor&, const DropoutKey&) {
  note_attention("attention_backward", qkv, shape, causal_pairs(shape), kBackwardProducts, {&dqkv, &dout, &out, &lse, &qkv});
}

AttentionShape queries_of(const PartialAttention& block) {
  AttentionShape shape = block.sequence;
  shape.tokens = block.queries.count;
  return shape;
}

// Kernels compute whole tiles: a block on the diagonal, of which half is seen, takes longer for each pair that counts.
std::string_view name_by_place(const PartialAttention& block, std::string_view off_diagonal, std::string_view on_diagonal) {
  return visible_pairs(block.queries, block.keys) < block.queries.count * block.keys.count ? on_diagonal : off_diagonal;
}

void partial_attention_forward(const Exec&, const PartialAttention& block, const Tensor& out, const Tensor& lse, const Tensor& q,
                               const Tensor& kv, const Tensor&, const DropoutKey&) {
  note_attention(name_by_place(block, "partial_attention_forward", "diagonal_attention_forward"), q, queries_of(block),
                 visible_pairs(block.queries, block.keys), kForwardProducts, {&out, &lse, &kv});
}

void partial_attention_backward(const Exec&, const PartialAttention& block, const Tensor& dq, const Tensor& dkv,
                                const Tensor& dout, const Tensor&, const Tensor& lse, const Tensor& q, const Tensor& kv,
                                const Tensor&, const DropoutKey&) {
  note_attention(name_by_place(block, "partial_attention_backward", "diagonal_attention_backward"), q, queries_of(block),
                 visible_pairs(block.queries, block.keys), kBackwardProducts, {&dq, &dkv, &dout, &lse, &kv});
}

void attention_merge(const Exec&, const PartialAttention&, const Tensor& out, const Tensor& lse, const Tensor& part_out,
                     const Tensor& part_lse) {
  note_pointwise("attention_merge", out, {&out, &out, &lse, &part_out, &part_lse});
}

void rope_forward(const Exec&, const AttentionShape&, const Tensor& qkv, const Tensor&, const Tensor&) {
  note_pointwise("rope_forward", qkv, {&qkv, &qkv});
}
void rope_backward(const Exec&, const AttentionShape&, const Tensor& dqkv, const Tensor&, const Tensor&) {
  note_pointwise("rope_backward", dqkv, {&dqkv, &dqkv});
}

void layernorm_forward(const Exec&, const Tensor& out, const Tensor&, const Tensor&, const Tensor& x, const Tensor&,
                       const Tensor&, float) {
  note_pointwise("layernorm_forward", x, {&out, &x});
}
void layernorm_backward(const Exec&, const Tensor& dx, const Tensor&, const Tensor&, const Tensor& dout, const Tensor& x,
                        const Tensor&, const Tensor&, const Tensor&) {
  note_pointwise("layernorm_backward", x, {&dx, &dx, &dout, &x});
}
void rmsnorm_forward(const Exec&, const Tensor& out, const Tensor&, const Tensor& x, const Tensor&, float) {
  note_pointwise("rmsnorm_forward", x, {&out, &x});
}
void rmsnorm_backward(const Exec&, const Tensor& dx, const Tensor&, const Tensor& dout, const Tensor& x, const Tensor&,
                      const Tensor&) {
  note_pointwise("rmsnorm_backward", x, {&dx, &dx, &dout, &x});
}

void gelu_forward(const Exec&, const Tensor& out, const Tensor& x, const Tensor&) {
  note_pointwise("gelu_forward", x, {&out, &x});
}
void gelu_backward(const Exec&, const Tensor& dx, const Tensor&, const Tensor& dout, const Tensor& x, const Tensor&) {
  note_pointwise("gelu_backward", x, {&dx, &dout, &x});
}
void relu_forward(const Exec&, const Tensor& out, const Tensor& x, const Tensor&) {
  note_pointwise("relu_forward", x, {&out, &x});
}
void relu_backward(const Exec&, const Tensor& dx, const Tensor&, const Tensor& dout, const Tensor& x, const Tensor&) {
  note_pointwise("relu_backward", x, {&dx, &dout, &x});
}
void swiglu_forward(const Exec&, const Tensor& out, const Tensor& x) { note_pointwise("swiglu_forward", x, {&out, &x}); }
void swiglu_backward(const Exec&, const Tensor& dx, const Tensor& dout, const Tensor& x) {
  note_pointwise("swiglu_backward", x, {&dx, &dout, &x});
}

void bias_backward(const Exec&, const Tensor&, const Tensor& dx) { note_pointwise("bias_backward", dx, {&dx}); }

void embedding_forward(const Exec&, const Tensor& out, std::span<const std::int32_t>, const Tensor&, const Tensor& positions) {
  note_pointwise("embedding_forward", out, {&out, &out, positions.defined() ? &out : &positions});
}
// A row of the table is read and written for each row of dout.
void embedding_backward(const Exec&, const Tensor& dtable, const Tensor& dpositions, std::span<const std::int32_t> tokens,
                        const Tensor& dout) {
  const double table =
      2.0 * static_cast<double>(tokens.size()) * static_cast<double>(dtable.shape().columns() * size_of(DType::f32));
  note({.op = "embedding_backward",
        .dtype = dout.dtype(),
        .m = dout.shape().rows(),
        .n = dout.shape().columns(),
        .bytes = bytes_of({&dout, &dpositions}) + table});
}

void cross_entropy_forward(const Exec&, const Tensor&, const Tensor& logits, Count, std::span<const std::int32_t>) {
  note_pointwise("cross_entropy_forward", logits, {&logits});
}
void cross_entropy_forward_backward(const Exec&, const Tensor&, const Tensor& logits, Count, std::span<const std::int32_t>,
                                    float) {
  note_pointwise("cross_entropy_forward_backward", logits, {&logits, &logits});
}

void adamw(const Exec&, const AdamWTensors& t, const Tensor&, const AdamWStep&, const Tensor&) {
  const bool copy = t.compute.raw() != t.weight.raw();
  note_pointwise("adamw", t.weight, {&t.weight, &t.weight, &t.m, &t.m, &t.v, &t.v, &t.gradient, copy ? &t.compute : &t.weight},
                 OpKind::optimizer);
}
void sum_of_squares(const Exec&, const Tensor&, const Tensor& x) { note_pointwise("sum_of_squares", x, {&x}, OpKind::optimizer); }

// The fused products are kernels of GPUs alone.
TunedKernels kernels(bool gpu) {
  return {
      .linear_forward = linear_forward,
      .linear_residual_forward = linear_residual_forward,
      .linear_gelu_forward = gpu ? linear_gelu_forward : nullptr,
      .linear_backward_input = linear_backward_input,
      .linear_gelu_backward = gpu ? linear_gelu_backward : nullptr,
      .linear_backward_weight = linear_backward_weight,
      .fp8_quantize = fp8_quantize,
      .fp8_linear_forward = fp8_linear_forward,
      .fp8_linear_residual_forward = fp8_linear_residual_forward,
      .fp8_linear_gelu_forward = fp8_linear_gelu_forward,
      .fp8_linear_backward_input = fp8_linear_backward_input,
      .fp8_linear_gelu_backward = fp8_linear_gelu_backward,
      .fp8_linear_backward_weight = fp8_linear_backward_weight,
      .attention_forward = attention_forward,
      .attention_backward = attention_backward,
      .partial_attention_forward = partial_attention_forward,
      .partial_attention_backward = partial_attention_backward,
      .attention_merge = attention_merge,
      .rope_forward = rope_forward,
      .rope_backward = rope_backward,
      .layernorm_forward = layernorm_forward,
      .layernorm_backward = layernorm_backward,
      .rmsnorm_forward = rmsnorm_forward,
      .rmsnorm_backward = rmsnorm_backward,
      .gelu_forward = gelu_forward,
      .gelu_backward = gelu_backward,
      .relu_forward = relu_forward,
      .relu_backward = relu_backward,
      .swiglu_forward = swiglu_forward,
      .swiglu_backward = swiglu_backward,
      .bias_backward = bias_backward,
      .embedding_forward = embedding_forward,
      .embedding_backward = embedding_backward,
      .cross_entropy_forward = cross_entropy_forward,
      .cross_entropy_forward_backward = cross_entropy_forward_backward,
      .adamw = adamw,
      .sum_of_squares = sum_of_squares,
  };
}

}  // namespace
}  // namespace cohort::ops::counted

namespace cohort::ops {

const TunedKernels& counted_kernels(const Exec& exec) {
  static const TunedKernels cpu = counted::kernels(false), gpu = counted::kernels(true);
  return exec.gpu() ? gpu : cpu;
}

}  // namespace cohort::ops
