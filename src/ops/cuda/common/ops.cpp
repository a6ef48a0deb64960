// From tensors to the launchers of the CUDA kernels.
#include "ops/cuda/ops.hpp"

#include "base/error.hpp"
#include "gpu/device.hpp"
#include "ops/cuda/embedding/embedding.hpp"
#include "ops/cuda/loss/cross_entropy.hpp"
#include "ops/cuda/norm/norm.hpp"
#include "ops/cuda/optimizer/adamw.hpp"
#include "ops/cuda/pointwise/pointwise.hpp"
#include "ops/cuda/pointwise/rope.hpp"

namespace cohort::ops::cuda {
namespace {

gpu::Stream stream() { return gpu::compute_stream(); }

// The ops' common scratch memory, if it is large enough.
void* scratch_of(Bytes bytes, const char* op) {
  COHORT_CHECK(bytes <= gpu::kWorkspaceBytes, "{} needs {} bytes of scratch, more than the {} there are", op, bytes,
               gpu::kWorkspaceBytes);
  return gpu::workspace();
}

float* fp32_or_null(const Tensor& tensor) { return tensor.defined() ? tensor.f32() : nullptr; }

void check_norm(const Tensor& x, const Tensor& other) {
  COHORT_CHECK(x.elements() == other.elements() && x.shape().columns() == other.shape().columns(), "norm: {} against {}",
               x.shape().str(), other.shape().str());
  COHORT_CHECK(x.shape().columns() <= kMaxNormColumns, "norm: rows of {} elements; on a GPU at most {}", x.shape().columns(),
               kMaxNormColumns);
}

}  // namespace

void layernorm_forward(const Exec&, const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                       const Tensor& weight, const Tensor& bias, float epsilon) {
  check_norm(x, out);
  layernorm_forward(stream(), x.dtype(), out.raw(), mean.f32(), rstd.f32(), x.raw(), weight.raw(), bias.raw(), x.shape().rows(),
                    x.shape().columns(), epsilon);
  gpu::check_launch("layernorm_forward");
}

void layernorm_backward(const Exec&, const Tensor& dx, const Tensor& dweight, const Tensor& dbias, const Tensor& dout,
                        const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd) {
  check_norm(x, dx);
  const Count rows = x.shape().rows();
  const Count columns = x.shape().columns();
  layernorm_backward(stream(), x.dtype(), dx.raw(), dweight.f32(), dbias.f32(), dout.raw(), x.raw(), weight.raw(), mean.f32(),
                     rstd.f32(), rows, columns, scratch_of(norm_backward_scratch_bytes(rows, columns), "layernorm_backward"));
  gpu::check_launch("layernorm_backward");
}

void rmsnorm_forward(const Exec&, const Tensor& out, const Tensor& rstd, const Tensor& x, const Tensor& weight, float epsilon) {
  check_norm(x, out);
  rmsnorm_forward(stream(), x.dtype(), out.raw(), rstd.f32(), x.raw(), weight.raw(), x.shape().rows(), x.shape().columns(),
                  epsilon);
  gpu::check_launch("rmsnorm_forward");
}

void rmsnorm_backward(const Exec&, const Tensor& dx, const Tensor& dweight, const Tensor& dout, const Tensor& x,
                      const Tensor& weight, const Tensor& rstd) {
  check_norm(x, dx);
  const Count rows = x.shape().rows();
  const Count columns = x.shape().columns();
  rmsnorm_backward(stream(), x.dtype(), dx.raw(), dweight.f32(), dout.raw(), x.raw(), weight.raw(), rstd.f32(), rows, columns,
                   scratch_of(norm_backward_scratch_bytes(rows, columns), "rmsnorm_backward"));
  gpu::check_launch("rmsnorm_backward");
}

void gelu_forward(const Exec&, const Tensor& out, const Tensor& x, const Tensor& bias) {
  gelu_forward(stream(), x.dtype(), out.raw(), x.raw(), bias.raw(), x.shape().rows(), x.shape().columns());
  gpu::check_launch("gelu_forward");
}

void gelu_backward(const Exec&, const Tensor& dx, const Tensor& dbias, const Tensor& dout, const Tensor& x, const Tensor& bias) {
  const Count rows = x.shape().rows();
  const Count columns = x.shape().columns();
  gelu_backward(stream(), x.dtype(), dx.raw(), fp32_or_null(dbias), dout.raw(), x.raw(), bias.raw(), rows, columns,
                scratch_of(column_sums_scratch_bytes(rows, columns), "gelu_backward"));
  gpu::check_launch("gelu_backward");
}

void relu_forward(const Exec&, const Tensor& out, const Tensor& x, const Tensor& bias) {
  relu_forward(stream(), x.dtype(), out.raw(), x.raw(), bias.raw(), x.shape().rows(), x.shape().columns());
  gpu::check_launch("relu_forward");
}

void relu_backward(const Exec&, const Tensor& dx, const Tensor& dbias, const Tensor& dout, const Tensor& x, const Tensor& bias) {
  const Count rows = x.shape().rows();
  const Count columns = x.shape().columns();
  relu_backward(stream(), x.dtype(), dx.raw(), fp32_or_null(dbias), dout.raw(), x.raw(), bias.raw(), rows, columns,
                scratch_of(column_sums_scratch_bytes(rows, columns), "relu_backward"));
  gpu::check_launch("relu_backward");
}

void swiglu_forward(const Exec&, const Tensor& out, const Tensor& x) {
  swiglu_forward(stream(), x.dtype(), out.raw(), x.raw(), out.shape().rows(), out.shape().columns());
  gpu::check_launch("swiglu_forward");
}

void swiglu_backward(const Exec&, const Tensor& dx, const Tensor& dout, const Tensor& x) {
  swiglu_backward(stream(), x.dtype(), dx.raw(), dout.raw(), x.raw(), dout.shape().rows(), dout.shape().columns());
  gpu::check_launch("swiglu_backward");
}

void bias_backward(const Exec&, const Tensor& dbias, const Tensor& dx) {
  const Count rows = dx.shape().rows();
  const Count columns = dx.shape().columns();
  COHORT_CHECK(dbias.elements() == columns, "bias_backward: {} from {}", dbias.shape().str(), dx.shape().str());
  column_sums(stream(), dx.dtype(), dbias.f32(), dx.raw(), rows, columns,
              scratch_of(column_sums_scratch_bytes(rows, columns), "bias_backward"));
  gpu::check_launch("bias_backward");
}

void rope_forward(const Exec&, const AttentionShape& shape, const Tensor& qkv, const Tensor& cosines, const Tensor& sines) {
  rope_forward(stream(), qkv.dtype(), shape, qkv.raw(), cosines.f32(), sines.f32());
  gpu::check_launch("rope_forward");
}

void rope_backward(const Exec&, const AttentionShape& shape, const Tensor& dqkv, const Tensor& cosines, const Tensor& sines) {
  rope_backward(stream(), dqkv.dtype(), shape, dqkv.raw(), cosines.f32(), sines.f32());
  gpu::check_launch("rope_backward");
}

void embedding_forward(const Exec&, const Tensor& out, std::span<const std::int32_t> tokens, const Tensor& token_table,
                       const Tensor& position_table) {
  const Count positions = position_table.defined() ? position_table.shape()[0] : 1;
  embedding_forward(stream(), out.dtype(), out.raw(), tokens.data(), token_table.raw(), position_table.raw(), out.shape().rows(),
                    positions, out.shape().columns());
  gpu::check_launch("embedding_forward");
}

void embedding_backward(const Exec&, const Tensor& dtoken_table, const Tensor& dposition_table,
                        std::span<const std::int32_t> tokens, const Tensor& dout) {
  const Count rows = dout.shape().rows();
  const Count columns = dout.shape().columns();
  const Count positions = dposition_table.defined() ? dposition_table.shape()[0] : 1;
  embedding_backward(stream(), dout.dtype(), dtoken_table.f32(), fp32_or_null(dposition_table), tokens.data(), dout.raw(), rows,
                     dtoken_table.shape()[0], positions, columns,
                     scratch_of(embedding_backward_scratch_bytes(rows, positions, columns), "embedding_backward"));
  gpu::check_launch("embedding_backward");
}

void cross_entropy_forward(const Exec&, const Tensor& loss_sum, const Tensor& logits, Count classes,
                           std::span<const std::int32_t> targets) {
  const Count rows = logits.shape().rows();
  auto* row_losses = static_cast<float*>(scratch_of(rows * size_of(DType::f32), "cross_entropy_forward"));
  cross_entropy_forward(stream(), logits.dtype(), loss_sum.data<double>(), row_losses, logits.raw(), targets.data(), rows,
                        classes, logits.shape().columns());
  gpu::check_launch("cross_entropy_forward");
}

void cross_entropy_forward_backward(const Exec&, const Tensor& loss_sum, const Tensor& logits, Count classes,
                                    std::span<const std::int32_t> targets, float scale) {
  const Count rows = logits.shape().rows();
  auto* row_losses = static_cast<float*>(scratch_of(rows * size_of(DType::f32), "cross_entropy_forward_backward"));
  cross_entropy_forward_backward(stream(), logits.dtype(), loss_sum.data<double>(), row_losses, logits.raw(), targets.data(),
                                 rows, classes, logits.shape().columns(), scale);
  gpu::check_launch("cross_entropy_forward_backward");
}

void adamw(const Exec&, const AdamWTensors& tensors, const Tensor& ranges, const AdamWStep& step, const Tensor& scalars) {
  adamw(stream(), tensors.weight.f32(), tensors.m.f32(), tensors.v.f32(), tensors.gradient.f32(), tensors.compute.dtype(),
        tensors.compute.raw(), static_cast<const AdamWRange*>(ranges.raw()),
        static_cast<int>(ranges.bytes() / static_cast<Bytes>(sizeof(AdamWRange))), tensors.weight.elements(), step,
        static_cast<const OptimizerScalars*>(scalars.raw()));
  gpu::check_launch("adamw");
}

void sum_of_squares(const Exec&, const Tensor& sum, const Tensor& x) {
  sum_of_squares(stream(), sum.data<double>(), x.f32(), x.elements(),
                 scratch_of(sum_of_squares_scratch_bytes(), "sum_of_squares"));
  gpu::check_launch("sum_of_squares");
}

}  // namespace cohort::ops::cuda
