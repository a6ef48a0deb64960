// The kernels of a step that are bound by bandwidth. Bytes are those that the headers in ops/cuda/ count.
#include <fmt/format.h>

#include <cmath>

#include "base/random.hpp"
#include "commands/bench/kernels_meter.hpp"
#include "ops/cuda/embedding/embedding.hpp"
#include "ops/cuda/loss/cross_entropy.hpp"
#include "ops/cuda/norm/norm.hpp"
#include "ops/cuda/optimizer/adamw.hpp"
#include "ops/cuda/pointwise/pointwise.hpp"
#include "ops/cuda/pointwise/rope.hpp"

namespace cohort {
namespace {

using namespace ops::cuda;

constexpr DType kPassType = DType::bf16;

class Passes {
 public:
  Passes(Meter& meter, const StepShape& shape)
      : meter_(meter), shape_(shape), r_(shape.rows()), c_(shape.width()), f_(shape.ffn_width()), size_(size_of(kPassType)) {
    const Count widest = std::max(shape.up_width(), shape.attention().packed_width());
    x_ = meter.normals(r_ * widest * size_);
    y_ = meter.normals(r_ * widest * size_);
    z_ = meter.normals(r_ * widest * size_);
    vector_ = meter.normals<float>(widest * size_of(DType::f32));  // weights, biases and their gradients
    statistics_ = meter.positives<float>(r_ * size_of(DType::f32));
  }

  void norms() const {
    const Count runs = 2 * shape_.layers() + 1;
    const double forward = bytes(2 * r_ * c_);
    const double backward = bytes(4 * r_ * c_);
    const auto scratch = meter_.normals(norm_backward_scratch_bytes(r_, c_));
    if (shape_.decoder.block.norm == NormKind::rms) {
      meter_.pass("RMS norm forward", runs, forward,
                  [&] { rmsnorm_forward(stream_, kPassType, y_, statistics_, x_, vector_, r_, c_, kEpsilon); });
      meter_.pass("RMS norm backward", runs, backward,
                  [&] { rmsnorm_backward(stream_, kPassType, y_, vector_, z_, x_, vector_, statistics_, r_, c_, scratch); });
      return;
    }
    float* const mean = meter_.normals<float>(r_ * size_of(DType::f32));
    meter_.pass("layer norm forward", runs, forward,
                [&] { layernorm_forward(stream_, kPassType, y_, mean, statistics_, x_, vector_, vector_, r_, c_, kEpsilon); });
    meter_.pass("layer norm backward", runs, backward, [&] {
      layernorm_backward(stream_, kPassType, y_, vector_, vector_, z_, x_, vector_, mean, statistics_, r_, c_, scratch);
    });
  }

  // Every head of queries and of keys is a row.
  void query_and_key_norms() const {
    if (!shape_.decoder.block.attention.qk_norm) return;
    const ops::AttentionShape s = shape_.attention();
    const Count rows = r_ * (s.heads + s.kv_heads);
    float* const statistics = meter_.positives<float>(rows * size_of(DType::f32));
    void* const scratch = meter_.normals(norm_backward_scratch_bytes(rows, s.head_size));
    meter_.pass("query and key norm forward", shape_.layers(), bytes(2 * rows * s.head_size),
                [&] { rmsnorm_forward(stream_, kPassType, y_, statistics, x_, vector_, rows, s.head_size, kEpsilon); });
    meter_.pass("query and key norm backward", shape_.layers(), bytes(4 * rows * s.head_size), [&] {
      rmsnorm_backward(stream_, kPassType, y_, vector_, z_, x_, vector_, statistics, rows, s.head_size, scratch);
    });
  }

  void bias_gradients() const {
    if (!shape_.decoder.block.attention.bias) return;
    const Count packed = shape_.attention().packed_width();
    for (const auto& [columns, runs] :
         {std::pair(c_, 2 * shape_.layers()), std::pair(packed, shape_.layers()), std::pair(f_, shape_.layers())}) {
      meter_.pass(fmt::format("column sums of {}", columns), runs, bytes(r_ * columns),
                  [&] { column_sums(stream_, kPassType, vector_, x_, r_, columns, gpu::workspace()); });
    }
  }

  void activations() const {
    if (shape_.swiglu()) {
      meter_.pass("SwiGLU forward", shape_.layers(), bytes(3 * r_ * f_),
                  [&] { swiglu_forward(stream_, kPassType, y_, x_, r_, f_); });
      meter_.pass("SwiGLU backward", shape_.layers(), bytes(5 * r_ * f_),
                  [&] { swiglu_backward(stream_, kPassType, y_, z_, x_, r_, f_); });
      return;
    }
    // A rung below the products' epilogue.
    meter_.pass("GELU forward", 0, bytes(2 * r_ * f_), [&] { gelu_forward(stream_, kPassType, y_, x_, vector_, r_, f_); });
    meter_.pass("GELU backward, with bias gradient", 0, bytes(3 * r_ * f_),
                [&] { gelu_backward(stream_, kPassType, y_, vector_, z_, x_, vector_, r_, f_, gpu::workspace()); });
  }

  void rope() const {
    if (!shape_.decoder.block.attention.rotary) return;
    const ops::AttentionShape s = shape_.attention();
    const Bytes table = s.tokens * s.head_size / 2 * size_of(DType::f32);
    const float* const cosines = meter_.normals<float>(table);
    const float* const sines = meter_.normals<float>(table);
    const double moved = bytes(2 * r_ * (s.heads + s.kv_heads) * s.head_size);
    meter_.pass("rotary positions forward", shape_.layers(), moved,
                [&] { rope_forward(stream_, kPassType, s, x_, cosines, sines); });
    meter_.pass("rotary positions backward", shape_.layers(), moved,
                [&] { rope_backward(stream_, kPassType, s, x_, cosines, sines); });
  }

  void embedding() const {
    const std::int32_t* const tokens = random_tokens(r_);
    const bool learned = shape_.decoder.learned_positions;
    const Count positions = learned ? shape_.tokens() : 0;
    const Count used = used_tokens();
    const Count v = shape_.vocabulary();
    const void* const table = meter_.normals(v * c_ * size_);
    const void* const position_table = learned ? z_ : nullptr;
    float* const gradient = meter_.normals<float>(v * c_ * size_of(DType::f32));
    float* const position_gradient = learned ? meter_.normals<float>(positions * c_ * size_of(DType::f32)) : nullptr;
    void* const scratch = meter_.normals(embedding_backward_scratch_bytes(r_, shape_.tokens(), c_));
    meter_.pass("embedding forward", 1, bytes((r_ + used + positions) * c_),
                [&] { embedding_forward(stream_, kPassType, x_, tokens, table, position_table, r_, shape_.tokens(), c_); });
    const double gradients = 8.0 * static_cast<double>((used + positions) * c_);  // read and written
    meter_.pass("embedding backward", 1, bytes((learned ? 2 : 1) * r_ * c_) + gradients, [&] {
      embedding_backward(stream_, kPassType, gradient, position_gradient, tokens, x_, r_, v, shape_.tokens(), c_, scratch);
    });
  }

  void cross_entropy() const {
    const Count rows = shape_.logit_rows();
    const Count v = shape_.vocabulary();
    const Count stride = shape_.logit_columns();
    const std::int32_t* const targets = random_tokens(rows);
    void* const logits = meter_.normals(rows * stride * size_);
    double* const loss = meter_.positives<double>(size_of(DType::f64));
    meter_.pass("classifier, loss only", 0, bytes(rows * v),
                [&] { cross_entropy_forward(stream_, kPassType, loss, statistics_, logits, targets, rows, v, stride); });
    // Its own gradient is the next run's logits: the time does not depend on the values.
    meter_.pass("classifier, loss and gradient", shape_.logit_chunks(), bytes(2 * rows * v), [&] {
      cross_entropy_forward_backward(stream_, kPassType, loss, statistics_, logits, targets, rows, v, stride, 1.0f);
    });
  }

  // Once a step, whatever the number of micro-batches.
  void optimizer() const {
    const Count n = shape_.parameters;
    const auto elements = static_cast<double>(n);
    const Bytes fp32 = n * size_of(DType::f32);
    float* const weight = meter_.normals<float>(fp32);
    float* const gradient = meter_.normals<float>(fp32);
    float* const m = meter_.normals<float>(fp32);
    float* const v = meter_.positives<float>(fp32);
    void* const working = meter_.normals(n * size_);
    const ops::AdamWRange* const ranges = meter_.holding(std::vector<ops::AdamWRange>{{0, n / 2, 0.1f}, {n / 2, n, 0.0f}});
    const ops::OptimizerScalars* const scalars = meter_.holding(std::vector<ops::OptimizerScalars>{{1.0f, 0}});
    double* const sum = meter_.positives<double>(size_of(DType::f64));
    const ops::AdamWStep step{1e-4f, 0.9f, 0.95f, 1e-8f, 10};
    meter_.pass("sum of squares (once a step)", 0, 4.0 * elements,
                [&] { sum_of_squares(stream_, sum, gradient, n, gpu::workspace()); });
    meter_.pass("AdamW (once a step)", 0, 30.0 * elements,
                [&] { adamw(stream_, weight, m, v, gradient, kPassType, working, ranges, 2, n, step, scalars); });
  }

 private:
  static constexpr float kEpsilon = 1e-5f;

  double bytes(Count elements) const { return static_cast<double>(elements * size_); }

  const std::int32_t* random_tokens(Count count) const {
    const CounterRandom random(2, RandomPurpose::test);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<std::int32_t>(random.u32(i) % static_cast<std::uint32_t>(shape_.vocabulary()));
    }
    return meter_.holding(tokens);
  }
  // Expected number of different tokens among R random ones.
  Count used_tokens() const {
    const auto v = static_cast<double>(shape_.vocabulary());
    return static_cast<Count>(v * -std::expm1(static_cast<double>(r_) * std::log1p(-1.0 / v)));
  }

  Meter& meter_;
  const StepShape& shape_;
  Count r_, c_, f_;
  Bytes size_;
  gpu::Stream stream_ = gpu::compute_stream();
  void *x_, *y_, *z_;
  float *vector_, *statistics_;
};

}  // namespace

void measure_passes(Meter& meter, const StepShape& shape) {
  const Passes passes(meter, shape);
  passes.norms();
  passes.query_and_key_norms();
  passes.bias_gradients();
  passes.activations();
  passes.rope();
  passes.embedding();
  passes.cross_entropy();
  passes.optimizer();
}

}  // namespace cohort
