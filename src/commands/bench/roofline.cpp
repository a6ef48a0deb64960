// `cohort bench roofline`: what this machine can reach, and where the ops of a step stand.
#include <array>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "comm/consensus.hpp"
#include "commands/bench/bench.hpp"
#include "commands/bench/product_peak.hpp"
#include "commands/bench/roofline_picture.hpp"
#include "commands/common/learners_code.hpp"
#include "commands/common/open_world.hpp"
#include "commands/common/output_file.hpp"
#include "ops/activation.hpp"
#include "ops/adamw.hpp"
#include "ops/attention.hpp"
#include "ops/gemm.hpp"
#include "ops/linear.hpp"
#include "ops/norm.hpp"
#include "ops/pointwise.hpp"
#include "plan/calibrate.hpp"
#include "runtime/runtime.hpp"
#include "tensor/counting_scope.hpp"

namespace cohort {
namespace {

struct RooflineOptions {
  std::string svg;
  std::string with;
  bool overwrite = false;
  bool json = false;
};

// Calls take turns at copies, so that as a rule what they read is not in a cache any more.
constexpr std::size_t kTurns = 4;
using Turns = std::array<Tensor, kTurns>;

Turns turns_of(const Shape& shape) {
  const CounterRandom random(1, RandomPurpose::test);
  Turns turns;
  for (Tensor& tensor : turns) {
    tensor = Tensor::zeros("bench.roofline", shape);
    for (Count i = 0; i < tensor.elements(); ++i)
      tensor.f32()[i] = static_cast<float>(random.uniform(static_cast<std::uint64_t>(i)) - 0.5);
  }
  return turns;
}

template <class Struct>
Tensor bytes_of(const Struct& value) {
  const Tensor tensor = Tensor::zeros("bench.roofline", {static_cast<Count>(sizeof(Struct))}, DType::u8);
  std::memcpy(tensor.raw(), &value, sizeof(Struct));
  return tensor;
}

// The fastest of a copy and of a scaling in place, which need not fetch what it overwrites.
double bandwidth() {
  constexpr Bytes kMoved = 128 * kMiB;
  const Tensor tensor = Tensor::zeros("bench.roofline", {kMoved / size_of(DType::f32)});
  const Tensor half = tensor.slice(0, tensor.elements() / 2), other = tensor.slice(tensor.elements() / 2, tensor.elements());
  double least = 1e9;  // seconds
  for (int repeat = 0; repeat < 2; ++repeat) {
    least = std::min(least, seconds_of_call(DeviceKind::cpu, [&] { half.copy_from(other); }));
    least = std::min(least, seconds_of_call(DeviceKind::cpu, [&] { ops::scale({}, half, 1.0f); }));
  }
  return static_cast<double>(kMoved) / least;
}

class RooflineMeter {
 public:
  // 2 MiB for each tensor of the products, 8 MiB for those of the other ops.
  void products() {
    constexpr Count kRows = 2048, kWidth = 256;
    const Turns x = turns_of({kRows, kWidth}), y = turns_of({kRows, kWidth}), weight = turns_of({kWidth, kWidth});
    const Tensor dweight = Tensor::zeros("bench.roofline", {kWidth, kWidth});
    measure("product, forward", [&](std::size_t i) { ops::linear_forward(exec_, y[i], x[i], weight[i]); });
    measure("product, dx", [&](std::size_t i) { ops::linear_backward_input(exec_, x[i], y[i], weight[i]); });
    measure("product, dW", [&](std::size_t i) { ops::linear_backward_weight(exec_, dweight, {}, y[i], x[i]); });
  }

  void attention() {
    const ops::AttentionShape shape{2, 256, 4, 4, 64};
    const Turns qkv = turns_of({shape.batch * shape.tokens, shape.packed_width()}),
                out = turns_of({shape.batch * shape.tokens, shape.width()});
    const Tensor lse = Tensor::zeros("bench.roofline", {shape.batch, shape.heads, shape.tokens});
    const Tensor scratch = Tensor::zeros("bench.roofline", {ops::attention_scratch_bytes(exec_, shape, DType::f32)}, DType::u8);
    measure("attention, forward", [&](std::size_t i) { ops::attention_forward(exec_, shape, out[i], lse, qkv[i], scratch); });
  }

  // Operations of an element, counted in the formulas; a tanh, an exp or a root counts as one.
  void rows() {
    constexpr Count kRows = 4096, kWidth = 512, kElements = kRows * kWidth;
    const auto vector = [](Count n) { return Tensor::zeros("bench.roofline", {n}); };
    const Turns x = turns_of({kRows, kWidth}), y = turns_of({kRows, kWidth}), z = turns_of({kRows, kWidth});
    const Tensor weight = vector(kWidth), bias = vector(kWidth), dbias = vector(kWidth), mean = vector(kRows),
                 rstd = vector(kRows);
    const auto of = [&](double operations) { return operations * static_cast<double>(kElements); };
    measure(
        "residual add", [&](std::size_t i) { ops::add(exec_, z[i], x[i], y[i]); }, of(1.0));
    measure(
        "bias and GELU, forward", [&](std::size_t i) { ops::gelu_forward(exec_, z[i], x[i], bias); }, of(10.0));
    measure(
        "bias and GELU, backward", [&](std::size_t i) { ops::gelu_backward(exec_, z[i], dbias, y[i], x[i], bias); }, of(20.0));
    measure(
        "layer norm, forward", [&](std::size_t i) { ops::layernorm_forward(exec_, z[i], mean, rstd, x[i], weight, bias, 1e-5f); },
        of(8.0));
    optimizer(x, y, z, of(15.0));
  }

  std::vector<RooflinePoint> take() { return std::move(points_); }

 private:
  void optimizer(const Turns& w, const Turns& m, const Turns& gradients, double operations) {
    const Count elements = w[0].elements();
    const auto flat = [&](const Tensor& tensor) { return tensor.reshaped({elements}); };
    const Tensor v = Tensor::zeros("bench.roofline", {elements});
    const Tensor ranges = bytes_of(ops::AdamWRange{0, elements, 0.1f}), scalars = bytes_of(ops::OptimizerScalars{});
    const ops::AdamWStep step{1e-6f, 0.9f, 0.95f, 1e-8f, 1};
    measure(
        "AdamW",
        [&](std::size_t i) {
          ops::adamw(exec_, {flat(w[i]), flat(w[i]), flat(m[i]), v, flat(gradients[i])}, ranges, step, scalars);
        },
        operations);
    points_.back().bytes = 28.0 * static_cast<double>(elements);  // w, m and v in and out, and the gradient
  }

  // Bytes are those that the op itself notes on a thread that counts; operations too, unless they are given.
  template <class Call>
  void measure(const char* name, const Call& call, double operations = 0.0) {
    const OpWork work = work_of_call([&] { call(0); });
    std::size_t turn = 0;
    const double seconds = seconds_of_call(DeviceKind::cpu, [&] { call(turn++ % kTurns); });
    points_.push_back({name, operations > 0.0 ? operations : work.flops, work.bytes, seconds});
  }

  ops::Exec exec_;
  std::vector<RooflinePoint> points_;
};

Roofline measured() {
  RooflineMeter meter;
  const double before = gemm_gflops_of_cpu(), bytes = bandwidth();
  meter.products();
  meter.attention();
  meter.rows();
  return {1e9 * std::max(before, gemm_gflops_of_cpu()), std::max(bytes, bandwidth()), meter.take()};
}

nlohmann::ordered_json as_json(const Roofline& roofline) {
  auto points = nlohmann::ordered_json::array();
  for (const RooflinePoint& p : roofline.points)
    points.push_back({{"op", p.op},
                      {"operations_per_byte", p.intensity()},
                      {"flops_per_second", p.flops_per_second()},
                      {"bytes_per_second", p.bytes / p.seconds},
                      {"share_of_roof", p.flops_per_second() / roofline.roof(p.intensity())}});
  return {{"peak_flops_per_second", roofline.flops_per_second},
          {"peak", ops::gemm_backend()},
          {"peak_bytes_per_second", roofline.bytes_per_second},
          {"ridge", roofline.ridge()},
          {"ops", points}};
}

void print_table(const Roofline& roofline) {
  fmt::print("products  {:.4g} GFLOP/s: 1024^3 in fp32 by {}\n", 1e-9 * roofline.flops_per_second, ops::gemm_backend());
  fmt::print("memory    {:.3g} GB/s: 64 MiB read and 64 MiB written, by a copy or in place\n", 1e-9 * roofline.bytes_per_second);
  fmt::print("ridge     {:.3g} operations a byte: below it an op is bound by memory\n\n", roofline.ridge());
  Table table({"op", "operations a byte", "GFLOP/s", "GB/s", "bound by", "of the roof"});
  for (const RooflinePoint& p : roofline.points)
    table.add({p.op, fmt::format("{:.2f}", p.intensity()), fmt::format("{:.2f}", 1e-9 * p.flops_per_second()),
               fmt::format("{:.2f}", 1e-9 * p.bytes / p.seconds), p.intensity() < roofline.ridge() ? "memory" : "arithmetic",
               fmt::format("{:.0f} %", 100.0 * p.flops_per_second() / roofline.roof(p.intensity()))});
  fmt::print("{}", table.str(1));
}

int bench_roofline(const RooflineOptions& options) {
  Runtime runtime;
  const std::unique_ptr<Communicator> world = open_world();
  if (world->size() != 1) throw SharedError(ExitCode::usage, "cohort bench roofline measures one rank: start it without mpirun");
  const std::filesystem::path file =
      options.svg.empty() ? std::filesystem::path() : output_file("--svg", options.svg, options.overwrite);
  runtime.open_device(DeviceKind::cpu);
  ops::set_gemm_threads(1);
  use_learners_code(*world, options.with);
  const Roofline roofline = measured();
  if (options.json) {
    fmt::print("{}\n", as_json(roofline).dump());
  } else {
    print_table(roofline);
  }
  if (file.empty()) return 0;
  write_file_atomically(file, draw_roofline(roofline, options.with.empty() ? "Roofline of one core, fp32"
                                                                           : "Roofline of one core, fp32, with your kernels"));
  if (!options.json) fmt::print("\nThe picture is in {}\n", options.svg);
  return 0;
}

}  // namespace

void add_bench_roofline(CLI::App& bench, Action& action) {
  auto* command = bench.add_subcommand("roofline", "What one core can reach, and where the ops of a step stand below it");
  command->footer(
      "An op cannot be faster than the core's arithmetic, nor than memory brings its operands: the roofline of Williams,\n"
      "Waterman and Patterson (2009). Bytes are those of the operands, each once: who stays in a cache can be above the roof.\n"
      "\n"
      "Examples:\n"
      "  cohort bench roofline                                 a table\n"
      "  cohort bench roofline --svg roofline.svg --overwrite  and a picture");
  const auto options = std::make_shared<RooflineOptions>();
  command->add_option("--svg", options->svg, "Draw it, too")->type_name("FILE");
  add_overwrite_option(*command, options->overwrite, "the picture");
  command->add_flag("--json", options->json, "Print JSON");
  add_with_option(*command, options->with);
  command->callback([&action, options] { action = [options] { return bench_roofline(*options); }; });
}

}  // namespace cohort
