// `cohort bench`: what this machine can do.
#include <memory>

#include "commands/bench/bench.hpp"
#include "commands/bench/kernels_shapes.hpp"
#include "commands/commands.hpp"
#include "commands/common/numbers.hpp"

namespace cohort {
namespace {

void add_kernels(CLI::App& bench, Action& action) {
  auto* command =
      bench.add_subcommand("kernels", "Time each CUDA kernel of a training step, as a share of what the card can reach");
  command->footer(
      "Examples:\n"
      "  cohort bench kernels                                  GPT-2 124M, 64 samples of 1024 tokens\n"
      "  cohort bench kernels --model llama-1b --micro-batch 16 --json\n"
      "  cohort bench kernels --ladder                         each op: tuned kernel against portable");
  const auto options = std::make_shared<KernelBenchOptions>();
  command->add_option("--model", options->model, "Predefined model")
      ->transform(CLI::IsMember(known_models(), CLI::ignore_case))
      ->capture_default_str();
  command->add_option("--micro-batch", options->micro_batch, "Samples [64 for gpt2-124m, fewer for larger models]")
      ->check(integer_from(1));
  command->add_option("--device", options->device, "Index among the visible GPUs")->check(integer_from(0))->capture_default_str();
  command->add_option("--tuning", options->tuning, "File of matrix-product algorithms: missing ones are timed and added to it");
  command->add_flag("--ladder", options->ladder, "Time each op with its tuned and its portable kernel (device.kernels)");
  command->add_flag("--json", options->json, "Print JSON, one kernel per line");
  command->callback([&action, options] { action = [options] { return bench_kernels(*options); }; });
}

}  // namespace

void add_bench_command(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("bench", "Measure speed");
  command->require_subcommand(1);
  add_bench_step(*command, action);
  add_bench_layouts(*command, action);
  add_bench_calibration(*command, action);
  add_kernels(*command, action);
  add_bench_roofline(*command, action);
  add_bench_checkpoint(*command, action);
  add_bench_generate(*command, action);
}

}  // namespace cohort
