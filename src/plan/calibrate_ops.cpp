#include <algorithm>
#include <cstring>
#include <memory>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/work_tape.hpp"
#include "gpu/stopwatch.hpp"
#include "observe/clock.hpp"
#include "ops/activation.hpp"
#include "ops/adamw.hpp"
#include "ops/attention.hpp"
#include "ops/copy_columns.hpp"
#include "ops/cross_entropy.hpp"
#include "ops/embedding.hpp"
#include "ops/fp8_linear.hpp"
#include "ops/linear.hpp"
#include "ops/norm.hpp"
#include "ops/partial_attention.hpp"
#include "ops/pointwise.hpp"
#include "plan/calibrate.hpp"
#include "plan/turning_tensor.hpp"
#include "tensor/convert.hpp"
#include "tensor/counting_scope.hpp"

namespace cohort {
namespace {

// Sizes that a machine of this kind is used at, and which it does in a reasonable time.
struct Sizes {
  std::vector<Count> rows, widths;  // of products
  std::vector<Bytes> pointwise;     // of a tensor
  std::vector<Count> lengths;       // of its rows
  std::vector<ops::AttentionShape> heads;
  double most_flops;  // of a product
};

Sizes sizes_of(DeviceKind device) {
  if (device == DeviceKind::gpu) {
    return {.rows = {1024, 4096, 16384},
            .widths = {768, 2048, 4096},
            .pointwise = {256 * kKiB, 4 * kMiB, 64 * kMiB, 256 * kMiB},
            .lengths = {512},
            .heads = {{64, 1024, 12, 12, 64}, {8, 2048, 32, 8, 64}, {2, 4096, 32, 8, 128}, {1, 8192, 32, 8, 128}},
            .most_flops = 1e13};
  }
  return {.rows = {64, 256, 1024, 4096},
          .widths = {64, 128, 256, 512, 1024},
          .pointwise = {16 * kKiB, 128 * kKiB, kMiB, 8 * kMiB},
          .lengths = {64, 256, 1024},
          .heads = {{16, 64, 4, 4, 16},
                    {8, 64, 4, 4, 32},
                    {4, 128, 4, 4, 64},
                    {4, 256, 4, 4, 32},
                    {2, 256, 6, 6, 64},
                    {1, 1024, 4, 4, 64}},
          .most_flops = 1.1e9};
}

class OpMeter {
 public:
  OpMeter(const Calibration& calibration, const CalibratedType& type)
      : calibration_(calibration), type_(type), exec_{.device = calibration.device, .tf32 = type.tf32} {}

  std::vector<OpSample> take() { return std::move(samples_); }

  void products() {
    const Sizes sizes = sizes_of(exec_.device);
    for (const Count width : sizes.widths) {
      for (const auto& [n, k] : {std::pair{width, width}, {4 * width, width}, {width, 4 * width}}) {
        for (const Count rows : sizes.rows) {
          if (2.0 * static_cast<double>(rows) * static_cast<double>(n) * static_cast<double>(k) <= sizes.most_flops)
            type_.dtype == DType::u8 ? fp8_product(rows, n, k) : product(rows, n, k);
        }
      }
    }
  }

  void attention() {
    for (const ops::AttentionShape& shape : sizes_of(exec_.device).heads) {
      const Count rows = shape.batch * shape.tokens;
      const TurningTensor qkv = values({rows, shape.packed_width()}), dqkv = values({rows, shape.packed_width()});
      const TurningTensor out = values({rows, shape.width()}), dout = values({rows, shape.width()});
      const Tensor lse = fp32({shape.batch, shape.heads, shape.tokens});
      const Tensor scratch = scratch_of(ops::attention_scratch_bytes(exec_, shape, type_.dtype));
      measure([&](std::size_t i) { ops::attention_forward(exec_, shape, out[i], lse, qkv.just_written(), scratch); });
      measure([&](std::size_t i) {
        ops::attention_backward(exec_, shape, dqkv[i], dout.just_written(), out[i], lse, qkv[i], scratch);
      });
      partial_attention(shape, qkv[0], lse);
    }
  }

  void pointwise() {
    for (const Bytes bytes : sizes_of(exec_.device).pointwise) {
      grid_ = true;
      for (const Count length : sizes_of(exec_.device).lengths) {
        rows_of(bytes / size_of(type_.dtype) / length, length);
        rotation(bytes / size_of(type_.dtype) / length, length);
      }
      grid_ = false;
      flat(bytes / size_of(DType::f32));
    }
  }

 private:
  Tensor made(const Shape& shape, DType dtype) const { return Tensor::zeros("calibration", shape, dtype, exec_.device); }
  Tensor fp32(const Shape& shape) const { return made(shape, DType::f32); }
  // Small numbers, since zeros cost a GPU less power; some thousands of them, again and again.
  TurningTensor values(const Shape& shape) const {
    constexpr Count kPeriod = 4099;  // a prime: no row of usual length is like the one before
    const CounterRandom random(1, RandomPurpose::test);
    const Tensor host = Tensor::zeros("calibration", shape);
    for (Count i = 0; i < std::min(kPeriod, host.elements()); ++i)
      host.f32()[i] = static_cast<float>(random.uniform(static_cast<std::uint64_t>(i)) - 0.5);
    for (Count i = kPeriod; i < host.elements(); ++i) host.f32()[i] = host.f32()[i - kPeriod];
    const DType dtype = type_.dtype == DType::u8 ? DType::bf16 : type_.dtype;  // of which copies in 8 bits are made
    const Tensor narrow = Tensor::zeros("calibration", shape, dtype);
    convert(narrow, host);
    return {narrow, exec_.device};
  }
  TurningTensor sums(const Shape& shape) const { return {Tensor::zeros("calibration", shape), exec_.device}; }

  // The second half of the queries against the first half of the keys, all of which they see, and against their own.
  void partial_attention(const ops::AttentionShape& shape, const Tensor& q, const Tensor& lse) {
    const Count half = shape.tokens / 2;
    const ops::PartialAttention block{shape, {half, half, half}, {0, 0, half}},
        diagonal{shape, {half, half, half}, {half, half, half}};
    const Tensor kv = values({shape.batch * shape.tokens, 2 * shape.kv_heads * shape.head_size})[0];
    const Tensor out = fp32({shape.batch * shape.tokens, shape.width()}), dq = fp32(out.shape()), dkv = fp32(kv.shape());
    const Tensor dout = values(out.shape())[0];
    const Tensor scratch = scratch_of(ops::partial_attention_scratch_bytes(exec_, block, type_.dtype));
    for (const ops::PartialAttention& one : {block, diagonal}) {
      measure([&](std::size_t) { ops::partial_attention_forward(exec_, one, out, lse, q, kv, scratch); });
      measure([&](std::size_t) { ops::partial_attention_backward(exec_, one, dq, dkv, dout, dout, lse, q, kv, scratch); });
    }
    measure([&](std::size_t) { ops::attention_merge(exec_, block, out, lse, dq, lse); });
  }

  Tensor scratch_of(Bytes bytes) const { return made({std::max<Bytes>(1, bytes)}, DType::u8); }

  void product(Count rows, Count n, Count k) {
    const TurningTensor x = values({rows, k}), y = values({rows, n}), weight = values({n, k}), residual = values({rows, n});
    const TurningTensor dweight = sums({n, k});
    const Tensor bias = made({n}, type_.dtype), dbias = fp32({n});
    const Tensor &hot_x = x.just_written(), &dy = y.just_written();
    measure([&](std::size_t i) { ops::linear_forward(exec_, y[i], hot_x, weight[i], bias); });
    measure([&](std::size_t i) { ops::linear_residual_forward(exec_, y[i], residual[i], hot_x, weight[i], bias); });
    measure([&](std::size_t i) { ops::linear_backward_input(exec_, x[i], dy, weight[i]); });
    measure([&](std::size_t i) { ops::linear_backward_weight(exec_, dweight[i], dbias, dy, x[i]); });
    measure([&](std::size_t i) { ops::linear_backward_weight(exec_, dweight[i], {}, dy, x[i]); });
    if (!exec_.gpu()) return;  // there one kernel; here two, which are measured by themselves
    measure([&](std::size_t i) { ops::linear_gelu_forward(exec_, y[i], residual[i], hot_x, weight[i], bias); });
    const Tensor own_bias = made({k}, type_.dtype), own_dbias = fp32({k});
    measure([&](std::size_t i) { ops::linear_gelu_backward(exec_, x[i], own_dbias, dy, weight[i], x[i + 1], own_bias); });
  }

  // The copies as layers make them (nn/linear_layer.cpp), then the products of them.
  void fp8_product(Count rows, Count n, Count k) {
    const TurningTensor x = values({rows, k}), y = values({rows, n}), weight = values({n, k});
    const Tensor residual = values({rows, n})[0], bias = made({n}, DType::bf16), dweight = fp32({n, k}), dbias = fp32({k});
    const ops::Fp8Matrix x8 = copies_of(x[0], ops::Fp8::e4m3), dy8 = copies_of(y[0], ops::Fp8::e5m2),
                         weight8 = copies_of(weight[0], ops::Fp8::e4m3);
    measure([&](std::size_t i) { ops::fp8_quantize(exec_, dy8, y[i]); });
    measure([&](std::size_t i) { ops::fp8_quantize(exec_, {.rows = x8.rows, .scale = x8.scale}, x[i]); });
    measure(
        [&](std::size_t i) { ops::fp8_quantize(exec_, {.transposed = weight8.transposed, .scale = weight8.scale}, weight[i]); });
    ops::fp8_quantize(exec_, x8, x[0]);
    ops::fp8_quantize(exec_, weight8, weight[0]);
    measure([&](std::size_t i) { ops::fp8_linear_forward(exec_, y[i], x8, weight8, bias); });
    measure([&](std::size_t i) { ops::fp8_linear_residual_forward(exec_, y[i], residual, x8, weight8, bias); });
    measure([&](std::size_t i) { ops::fp8_linear_gelu_forward(exec_, y[i], residual, x8, weight8, bias); });
    measure([&](std::size_t i) { ops::fp8_linear_backward_input(exec_, x[i], dy8, weight8); });
    measure([&](std::size_t i) { ops::fp8_linear_gelu_backward(exec_, x[i], dbias, dy8, weight8, x[i + 1]); });
    measure([&](std::size_t) { ops::fp8_linear_backward_weight(exec_, dweight, dy8, x8); });
  }

  ops::Fp8Matrix copies_of(const Tensor& x, ops::Fp8 format) const {
    const Count rows = x.shape().rows(), columns = x.shape().columns();
    return {format, made({rows, columns}, DType::u8), made({columns, rows}, DType::u8), fp32({2})};
  }

  void rows_of(Count rows, Count n) {
    const TurningTensor x = values({rows, n}), y = values({rows, n}), z = values({rows, n});
    const Tensor weight = made({n}, type_.dtype), bias = made({n}, type_.dtype), dweight = fp32({n}), dbias = fp32({n});
    const Tensor mean = fp32({rows}), rstd = fp32({rows});
    const Tensor &in = x.just_written(), &dout = y.just_written();
    measure([&](std::size_t i) { ops::add(exec_, z[i], x[i], dout); });
    measure([&](std::size_t i) { ops::copy_columns(exec_, z[i], 0, in, 0, n / 2); });
    measure([&](std::size_t) { ops::bias_backward(exec_, dbias, dout); });
    measure([&](std::size_t i) { ops::layernorm_forward(exec_, z[i], mean, rstd, in, weight, bias, 1e-5f); });
    measure([&](std::size_t i) { ops::layernorm_backward(exec_, z[i], dweight, dbias, dout, x[i], weight, mean, rstd); });
    measure([&](std::size_t i) { ops::rmsnorm_forward(exec_, z[i], rstd, in, weight, 1e-5f); });
    measure([&](std::size_t i) { ops::rmsnorm_backward(exec_, z[i], dweight, dout, x[i], weight, rstd); });
    measure([&](std::size_t i) { ops::gelu_forward(exec_, z[i], in, bias); });
    measure([&](std::size_t i) { ops::gelu_backward(exec_, z[i], dbias, dout, x[i], bias); });
    measure([&](std::size_t i) { ops::relu_forward(exec_, z[i], in, bias); });
    measure([&](std::size_t i) { ops::relu_backward(exec_, z[i], dbias, dout, x[i], bias); });
    const TurningTensor wide = values({rows, 2 * n});
    measure([&](std::size_t i) { ops::swiglu_forward(exec_, z[i], wide.just_written()); });
    measure([&](std::size_t i) { ops::swiglu_backward(exec_, wide[i], dout, wide[i + 1]); });
    vocabulary(x, y, rows, n);
    const Tensor slots = Tensor::zeros("calibration", {1}, DType::i64, exec_.device);
    const ops::DropoutKey key{.probability = 0.1, .seed = 1, .slots = {slots.data<Count>(), 1}};
    measure([&](std::size_t) { ops::dropout(exec_, z.just_written(), key); });
  }

  // Ids and targets are zeros.
  void vocabulary(const TurningTensor& x, const TurningTensor& y, Count rows, Count n) {
    const Tensor ids = made({rows}, DType::i32);
    const std::span<const std::int32_t> tokens(ids.data<std::int32_t>(), static_cast<std::size_t>(rows));
    const Tensor table = made({64, n}, type_.dtype), dtable = fp32({64, n}), loss = made({1}, DType::f64);
    measure([&](std::size_t i) { ops::embedding_forward(exec_, x[i], tokens, table, {}); });
    measure([&](std::size_t) { ops::embedding_backward(exec_, dtable, {}, tokens, y.just_written()); });
    measure([&](std::size_t) { ops::cross_entropy_forward(exec_, loss, x.just_written(), n, tokens); });
    measure([&](std::size_t) { ops::cross_entropy_forward_backward(exec_, loss, x.just_written(), n, tokens, 1e-3f); });
  }

  // Queries, keys and values of `length` elements each, in heads of at most 64.
  void rotation(Count rows, Count length) {
    const Count head_size = std::min<Count>(64, length), heads = length / head_size;
    constexpr Count kPositions = 1024;  // whose tables stay in a cache, as in a step
    const Count tokens = rows % kPositions == 0 ? kPositions : rows;
    const ops::AttentionShape shape{rows / tokens, tokens, heads, heads, head_size};
    const Tensor qkv = values({rows, shape.packed_width()}).just_written();
    const Tensor cosines = fp32({tokens, head_size / 2}), sines = fp32({tokens, head_size / 2});
    measure([&](std::size_t) { ops::rope_forward(exec_, shape, qkv, cosines, sines); });
    measure([&](std::size_t) { ops::rope_backward(exec_, shape, qkv, cosines, sines); });
  }

  void flat(Count elements) {
    const TurningTensor weight = sums({elements}), m = sums({elements}), v = sums({elements}), gradient = sums({elements});
    const Tensor narrow = made({elements}, type_.dtype);
    const auto compute = [&](std::size_t i) { return type_.dtype == DType::f32 ? weight[i] : narrow; };
    const Tensor ranges = bytes_of(ops::AdamWRange{0, elements, 0.1f}), scalars = bytes_of(ops::OptimizerScalars{});
    const Tensor sum = made({1}, DType::f64);
    measure([&](std::size_t i) {
      ops::adamw(exec_, {weight[i], compute(i), m[i], v[i], gradient[i]}, ranges, {1e-3f, 0.9f, 0.95f, 1e-8f, 1}, scalars);
    });
    measure([&](std::size_t i) { ops::sum_of_squares(exec_, sum, gradient[i]); });
    measure([&](std::size_t i) { gradient[i].zero(); });
    measure([&](std::size_t i) { gradient[i].copy_from(weight[i]); });
    if (type_.dtype != DType::f32) measure([&](std::size_t i) { convert(narrow, gradient[i]); });
  }

  template <class Struct>
  Tensor bytes_of(const Struct& value) const {
    const Tensor host = Tensor::zeros("calibration", {static_cast<Count>(sizeof(Struct))}, DType::u8);
    std::memcpy(host.raw(), &value, sizeof(Struct));
    return exec_.gpu() ? host.to(exec_.device, "calibration") : host;
  }

  // What the op notes, and the mean over the ranks of its time.
  template <class Call>
  void measure(const Call& call) {
    const OpWork work = work_of_call([&] { call(0); });
    std::size_t turn = 0;
    const double own = seconds_of_call(
        exec_.device, [&] { call(turn++); }, calibration_.rows_of_calls);
    const double mean = all_reduce_value(calibration_.world, own, ReduceOp::sum) / calibration_.world.size();
    samples_.push_back({std::string(work.op), work.kind, work.dtype, work.tf32, work.m, work.n, work.k, work.flops, work.bytes,
                        mean, grid_ && work.n > 0});
  }

  const Calibration& calibration_;
  CalibratedType type_;
  ops::Exec exec_;
  bool grid_ = false;  // whether what is measured is one of a grid of sizes and lengths
  std::vector<OpSample> samples_;
};

// On a GPU by its own clock: a host that waits may sleep for longer than the calls take.
double seconds_of_row(DeviceKind device, int calls, const std::function<void()>& call) {
  const auto row = [&] {
    for (int i = 0; i < calls; ++i) call();
  };
  if (device == DeviceKind::cpu) {
    const double begin = steady_seconds();
    row();
    return steady_seconds() - begin;
  }
  gpu::Stopwatch stopwatch;
  stopwatch.start();
  row();
  stopwatch.stop();
  gpu::synchronize();
  return stopwatch.seconds();
}

}  // namespace

OpWork work_of_call(const std::function<void()>& call) {
  WorkTape tape;
  {
    const CountingScope counting;
    const ListeningScope listens(tape);
    call();
  }
  COHORT_CHECK(tape.entries().size() == 1, "a call to be measured noted {} entries", tape.entries().size());
  return std::get<OpWork>(tape.entries().front());
}

double seconds_of_call(DeviceKind device, const std::function<void()>& call, int rows) {
  constexpr double kRow = 2e-3;  // seconds, so that the clock and waking the device do not count
  const auto time_row = [&](int calls) { return seconds_of_row(device, calls, call) / calls; };
  time_row(1);
  const int calls = std::clamp(static_cast<int>(kRow / std::max(time_row(1), 1e-8)), 1, 1000);
  std::vector<double> seconds(static_cast<std::size_t>(rows));
  for (double& one : seconds) one = time_row(calls);
  const auto median = seconds.begin() + rows / 2;
  std::nth_element(seconds.begin(), median, seconds.end());
  return *median;
}

std::vector<OpSample> measure_ops(const Calibration& calibration) {
  std::vector<OpSample> samples;
  for (const CalibratedType& type : calibration.types) {
    OpMeter meter(calibration, type);
    const bool fp8 = type.dtype == DType::u8;
    const std::string name = type.tf32 ? "tf32" : fp8 ? "fp8" : std::string(name_of(type.dtype));
    calibration.progress("matrix products, " + name);
    meter.products();
    if (!fp8) {
      calibration.progress("attention, " + name);
      meter.attention();
      calibration.progress("element-wise ops and the optimizer, " + name);
      meter.pointwise();
    }
    for (OpSample& sample : meter.take()) samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace cohort
