#include "commands/bench/kernels_ladder.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/random.hpp"
#include "base/text.hpp"
#include "ops/activation.hpp"
#include "ops/adamw.hpp"
#include "ops/attention.hpp"
#include "ops/cross_entropy.hpp"
#include "ops/embedding.hpp"
#include "ops/linear.hpp"
#include "ops/norm.hpp"
#include "ops/pointwise.hpp"

namespace cohort {
namespace {

using ops::Exec;

constexpr DType kType = DType::bf16;

class Ladder {
 public:
  Ladder(Meter& meter, const StepShape& shape)
      : meter_(meter), shape_(shape), r_(shape.rows()), c_(shape.width()), f_(shape.ffn_width()), s_(shape.attention()) {}

  void norms() {
    const Tensor x = activation(r_, c_), y = activation(r_, c_), z = activation(r_, c_), weight = activation(1, c_);
    const Tensor mean = fp32(r_), rstd = positives(r_), dweight = fp32(c_), dbias = fp32(c_);
    const double forward = bytes(2 * r_ * c_), backward = bytes(4 * r_ * c_);
    pass("layer norm forward", forward,
         [=](const Exec& e) { ops::layernorm_forward(e, y, mean, rstd, x, weight, weight, 1e-5f); });
    pass("layer norm backward", backward,
         [=](const Exec& e) { ops::layernorm_backward(e, y, dweight, dbias, z, x, weight, mean, rstd); });
    pass("RMS norm forward", forward, [=](const Exec& e) { ops::rmsnorm_forward(e, y, rstd, x, weight, 1e-5f); });
    pass("RMS norm backward", backward, [=](const Exec& e) { ops::rmsnorm_backward(e, y, dweight, z, x, weight, rstd); });
  }

  void activations() {
    const Tensor x = activation(r_, f_), y = activation(r_, f_), z = activation(r_, f_), bias = activation(1, f_),
                 dbias = fp32(f_);
    const Tensor wide = activation(r_, 2 * f_), dwide = activation(r_, 2 * f_);
    pass("GELU forward", bytes(2 * r_ * f_), [=](const Exec& e) { ops::gelu_forward(e, y, x, bias); });
    pass("GELU backward", bytes(3 * r_ * f_), [=](const Exec& e) { ops::gelu_backward(e, y, dbias, z, x, bias); });
    pass("SwiGLU forward", bytes(3 * r_ * f_), [=](const Exec& e) { ops::swiglu_forward(e, y, wide); });
    pass("SwiGLU backward", bytes(5 * r_ * f_), [=](const Exec& e) { ops::swiglu_backward(e, dwide, z, wide); });
    pass("bias gradient", bytes(r_ * f_), [=](const Exec& e) { ops::bias_backward(e, dbias, x); });
  }

  void embedding_and_loss() {
    const Tensor x = activation(r_, c_), table = activation(shape_.vocabulary(), c_), gradient = fp32(shape_.vocabulary(), c_);
    const auto tokens = random_tokens(r_);
    pass("embedding forward", bytes(2 * r_ * c_), [=](const Exec& e) { ops::embedding_forward(e, x, tokens, table, {}); });
    pass("embedding backward", bytes(5 * r_ * c_), [=](const Exec& e) { ops::embedding_backward(e, gradient, {}, tokens, x); });
    const Count rows = shape_.logit_rows();
    const Tensor logits = activation(rows, shape_.logit_columns()),
                 loss = wrap(meter_.positives(size_of(DType::f64)), {1}, DType::f64);
    const auto targets = random_tokens(rows);
    pass("classifier, loss and gradient", bytes(2 * rows * shape_.vocabulary()),
         [=, this](const Exec& e) { ops::cross_entropy_forward_backward(e, loss, logits, shape_.vocabulary(), targets, 1.0f); });
  }

  void optimizer() {
    const Count n = shape_.parameters;
    const ops::AdamWTensors tensors{fp32(n), wrap(meter_.normals(n * size_of(kType)), {n}, kType), fp32(n), positives(n),
                                    fp32(n)};
    const auto structs = [&](auto* memory, std::size_t count) {
      return wrap(memory, {static_cast<Count>(count * sizeof(*memory))}, DType::u8);
    };
    const Tensor ranges = structs(meter_.holding(std::vector<ops::AdamWRange>{{0, n / 2, 0.1f}, {n / 2, n, 0.0f}}), 2);
    const Tensor scalars = structs(meter_.holding(std::vector<ops::OptimizerScalars>{{1.0f, 0}}), 1);
    const Tensor sum = wrap(meter_.positives(size_of(DType::f64)), {1}, DType::f64);
    pass("sum of squares", 4.0 * static_cast<double>(n), [=](const Exec& e) { ops::sum_of_squares(e, sum, tensors.gradient); });
    pass("AdamW", 30.0 * static_cast<double>(n), [=](const Exec& e) {
      ops::adamw(e, tensors, ranges, {1e-4f, 0.9f, 0.95f, 1e-8f, 10}, scalars);
    });
  }

  void attention() {
    const Tensor qkv = activation(r_, s_.packed_width()), dqkv = activation(r_, s_.packed_width());
    const Tensor out = activation(r_, s_.width()), dout = activation(r_, s_.width()), lse = fp32(s_.batch * s_.heads * s_.tokens);
    const Bytes scratch_bytes = ops::attention_scratch_bytes({.device = DeviceKind::gpu}, s_, kType);
    const Tensor scratch = wrap(meter_.normals(scratch_bytes), {scratch_bytes}, DType::u8);
    const Tensor cosines = fp32(s_.tokens, s_.head_size / 2), sines = fp32(s_.tokens, s_.head_size / 2);
    pass("rotary positions", bytes(2 * r_ * (s_.heads + s_.kv_heads) * s_.head_size),
         [=, this](const Exec& e) { ops::rope_forward(e, s_, qkv, cosines, sines); });
    const double product =
        static_cast<double>(s_.batch * s_.heads * s_.tokens * s_.tokens * s_.head_size);  // half of 2 x: causal
    work("attention forward", 2.0 * product, true,
         [=, this](const Exec& e) { ops::attention_forward(e, s_, out, lse, qkv, scratch); });
    work("attention backward", 5.0 * product, true,
         [=, this](const Exec& e) { ops::attention_backward(e, s_, dqkv, dout, out, lse, qkv, scratch); });
  }

  void products() {
    const Tensor x = activation(r_, c_), y = activation(r_, f_), weight = activation(f_, c_), dweight = fp32(f_, c_);
    const double flops = 2.0 * static_cast<double>(r_) * static_cast<double>(c_) * static_cast<double>(f_);
    work("linear forward", flops, true, [=](const Exec& e) { ops::linear_forward(e, y, x, weight); });
    work("linear backward, input", flops, true, [=](const Exec& e) { ops::linear_backward_input(e, x, y, weight); });
    work("linear backward, weight", flops, true, [=](const Exec& e) { ops::linear_backward_weight(e, dweight, {}, y, x); });
  }

  std::vector<Rungs> take() { return std::move(rungs_); }

 private:
  static Tensor wrap(void* memory, const Shape& shape, DType dtype) {
    return Tensor::wrap(memory, shape, dtype, DeviceKind::gpu);
  }
  Tensor activation(Count rows, Count columns) const {
    return wrap(meter_.normals(rows * columns * size_of(kType)), {rows, columns}, kType);
  }
  Tensor fp32(Count elements) const { return wrap(meter_.normals(elements * size_of(DType::f32)), {elements}, DType::f32); }
  Tensor fp32(Count rows, Count columns) const { return fp32(rows * columns).reshaped({rows, columns}); }
  Tensor positives(Count elements) const {
    return wrap(meter_.positives(elements * size_of(DType::f32)), {elements}, DType::f32);
  }
  static double bytes(Count elements) { return static_cast<double>(elements * size_of(kType)); }

  std::span<const std::int32_t> random_tokens(Count count) const {
    const CounterRandom random(2, RandomPurpose::test);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<std::int32_t>(random.u32(i) % static_cast<std::uint32_t>(shape_.vocabulary()));
    }
    return {meter_.holding(tokens), tokens.size()};
  }

  using Op = std::function<void(const Exec& exec)>;
  void pass(const std::string& op, double moved, const Op& run) { work(op, moved, false, run); }
  void work(const std::string& op, double amount, bool is_flops, const Op& run) {
    double milliseconds[2];
    for (const ops::Kernels kernels : {ops::Kernels::tuned, ops::Kernels::portable}) {
      const Exec exec{.device = DeviceKind::gpu, .kernels = kernels};
      const auto timed = [&] { run(exec); };
      if (is_flops) {
        meter_.product(op, 0, amount, timed);
      } else {
        meter_.pass(op, 0, amount, timed);
      }
      milliseconds[kernels == ops::Kernels::portable] = meter_.timings().back().milliseconds;
    }
    rungs_.push_back({op, milliseconds[0], milliseconds[1], amount, is_flops});
  }

  Meter& meter_;
  const StepShape& shape_;
  Count r_, c_, f_;
  ops::AttentionShape s_;
  std::vector<Rungs> rungs_;
};

}  // namespace

std::vector<Rungs> measure_ladder(Meter& meter, const StepShape& shape) {
  Ladder ladder(meter, shape);
  ladder.norms();
  ladder.activations();
  ladder.embedding_and_loss();
  ladder.optimizer();
  ladder.attention();
  ladder.products();
  return ladder.take();
}

void print_ladder(const StepShape& shape, const std::vector<Rungs>& ladder, bool json) {
  if (json) {
    for (const Rungs& rungs : ladder) {
      const nlohmann::ordered_json line{{"op", rungs.op},
                                        {"tuned_microseconds", 1e3 * rungs.tuned_milliseconds},
                                        {"portable_microseconds", 1e3 * rungs.portable_milliseconds},
                                        {"share_of_tuned", rungs.share()}};
      fmt::print("{}\n", line.dump());
    }
    return;
  }
  fmt::print("{}, bf16: the ops of {} with a micro-batch of {} x {} tokens\n\n", gpu::facts().name, shape.name, shape.samples,
             shape.tokens());
  Table table({"op", "tuned us", "portable us", "tuned", "portable", "", "of tuned"});
  for (const Rungs& rungs : ladder) {
    const auto rate = [&](double milliseconds) {
      return fmt::format("{:.0f}", rungs.work / (1e-3 * milliseconds) * (rungs.is_flops ? 1e-12 : 1e-9));
    };
    table.add({rungs.op, fmt::format("{:.1f}", 1e3 * rungs.tuned_milliseconds),
               fmt::format("{:.1f}", 1e3 * rungs.portable_milliseconds), rate(rungs.tuned_milliseconds),
               rate(rungs.portable_milliseconds), rungs.is_flops ? "TFLOP/s" : "GB/s",
               fmt::format("{:.0f} %", 100.0 * rungs.share())});
  }
  fmt::print("{}", table.str());
}

}  // namespace cohort
