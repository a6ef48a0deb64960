#include "commands/bench/bench.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "commands/bench/kernels_ladder.hpp"
#include "commands/bench/kernels_meter.hpp"
#include "ops/cuda/gemm/gemm.hpp"
#include "ops/cuda/pointwise/pointwise.hpp"
#include "runtime/kokkos.hpp"

namespace cohort {
namespace {

using nlohmann::ordered_json;

// The fastest product and the fastest pass that were measured. A large cube and a copy are among them, but the cube is not always
// the fastest: it draws so much power that the card lowers its clock further than for smaller products.
struct Ceilings {
  const Timing* product;
  const Timing* pass;

  double of(const Timing& timing) const { return (timing.is_flops ? product : pass)->rate(); }
};

Ceilings ceilings_of(const std::vector<Timing>& timings) {
  const auto slower = [](const Timing& a, const Timing& b) { return a.rate() < b.rate(); };
  const auto best = [&](bool is_flops) {
    const Timing* found = nullptr;
    for (const Timing& timing : timings) {
      if (timing.is_flops == is_flops && (found == nullptr || slower(*found, timing))) found = &timing;
    }
    return found;
  };
  return {best(true), best(false)};
}

void measure_large_ones(Meter& meter) {
  constexpr Count kSize = 8192;
  constexpr Bytes kCopied = kGiB;
  const auto cube = [&] {
    return ops::cuda::Matrix{meter.normals(kSize * kSize * size_of(DType::bf16)), DType::bf16, kSize, kSize, kSize};
  };
  const ops::cuda::GemmCall call{.c = cube(), .a = cube(), .b = cube(), .transpose_b = true};
  meter.product("product of 8192^3", 0, 2.0 * static_cast<double>(kSize * kSize * kSize), [&] { ops::cuda::gemm(call, false); });
  void* const from = meter.normals(kCopied);
  void* const to = meter.normals(kCopied);
  meter.pass("copy", 0, 2.0 * static_cast<double>(kCopied), [&] { ops::cuda::copy(gpu::compute_stream(), to, from, kCopied); });
}

double milliseconds_of_micro_batch(const std::vector<Timing>& timings) {
  double sum = 0.0;
  for (const Timing& timing : timings) sum += static_cast<double>(timing.runs) * timing.milliseconds;
  return sum;
}

void print_kernels_json(const StepShape& shape, const Ceilings& ceilings, const std::vector<Timing>& timings) {
  const ordered_json head{{"device", gpu::facts().name},
                          {"matrix_products", ops::cuda::gemm_library()},
                          {"model", shape.name},
                          {"micro_batch", shape.samples},
                          {"ceiling_flops_per_second", ceilings.product->rate()},
                          {"ceiling_bytes_per_second", ceilings.pass->rate()},
                          {"micro_batch_milliseconds", milliseconds_of_micro_batch(timings)}};
  fmt::print("{}\n", head.dump());
  for (const Timing& timing : timings) {
    const ordered_json line{{"kernel", timing.kernel},
                            {"runs", timing.runs},
                            {"microseconds", 1e3 * timing.milliseconds},
                            {timing.is_flops ? "flops_per_second" : "bytes_per_second", timing.rate()},
                            {"share_of_ceiling", timing.rate() / ceilings.of(timing)}};
    fmt::print("{}\n", line.dump());
  }
}

void print_kernels_table(const StepShape& shape, const Ceilings& ceilings, const std::vector<Timing>& timings) {
  fmt::print("{}, {}, bf16: {} with a micro-batch of {} x {} tokens\n", gpu::facts().name, ops::cuda::gemm_library(), shape.name,
             shape.samples, shape.tokens());
  fmt::print("ceilings, the fastest here: {:.0f} TFLOP/s ({}), {:.0f} GB/s ({}; reads and writes counted)\n\n",
             1e-12 * ceilings.product->rate(), ceilings.product->kernel, 1e-9 * ceilings.pass->rate(), ceilings.pass->kernel);
  Table table({"kernel", "runs", "us", "ms total", "rate", "", "of ceiling"});
  for (const Timing& timing : timings) {
    const double all = static_cast<double>(timing.runs) * timing.milliseconds;
    table.add({timing.kernel, timing.runs == 0 ? "-" : fmt::format("{}", timing.runs),
               fmt::format("{:.1f}", 1e3 * timing.milliseconds), timing.runs == 0 ? "-" : fmt::format("{:.2f}", all),
               fmt::format("{:.0f}", timing.rate() * (timing.is_flops ? 1e-12 : 1e-9)), timing.is_flops ? "TFLOP/s" : "GB/s",
               fmt::format("{:.0f} %", 100.0 * timing.rate() / ceilings.of(timing))});
  }
  const double sum = milliseconds_of_micro_batch(timings);
  fmt::print("{}\none micro-batch: {:.2f} ms of kernels, {:.0f} tokens/s if nothing else took time\n", table.str(), sum,
             1e3 * static_cast<double>(shape.rows()) / sum);
}

// With Kokkos on it, which the portable kernels need.
void open_device(int index, bool with_kokkos) {
  const int visible = gpu::visible_devices();
  if (visible == 0) fail(ExitCode::launch, "cohort bench kernels needs a GPU: {}", gpu::why_no_device());
  if (index >= visible) fail(ExitCode::launch, "--device {}: {} visible, counted from 0", index, counted(visible, "device"));
  if (with_kokkos) start_kokkos(index);
  gpu::open(index);
}

int bench_ladder(const StepShape& shape, bool json) {
  {
    Meter meter;
    print_ladder(shape, measure_ladder(meter, shape), json);
  }  // device memory goes before the device
  gpu::close();
  stop_kokkos();
  return 0;
}

}  // namespace

int bench_kernels(const KernelBenchOptions& options) {
  const StepShape shape = step_shape(options.model, options.micro_batch);
  open_device(options.device, options.ladder);
  if (options.ladder) return bench_ladder(shape, options.json);
  {
    if (!options.tuning.empty()) {
      if (std::filesystem::exists(options.tuning)) ops::cuda::load_gemm_tuning(options.tuning);
      ops::cuda::set_gemm_tuning(true);
    }
    Meter meter;
    measure_large_ones(meter);
    measure_products(meter, shape);
    measure_attention(meter, shape);
    measure_passes(meter, shape);
    const Ceilings ceilings = ceilings_of(meter.timings());
    if (options.json) {
      print_kernels_json(shape, ceilings, meter.timings());
    } else {
      print_kernels_table(shape, ceilings, meter.timings());
      fmt::print("\nmatrix products (times only where tuned):\n{}", ops::cuda::gemm_report());
    }
    if (!options.tuning.empty()) ops::cuda::save_gemm_tuning(options.tuning);
  }  // device memory goes before the device
  gpu::close();
  return 0;
}

}  // namespace cohort
