// The parts of `cohort bench` that are files of their own; bench.cpp has the rest and the options.
#pragma once

#include <string>

#include "base/units.hpp"
#include "commands/commands.hpp"

namespace cohort {

/// `cohort bench step`.
void add_bench_step(CLI::App& bench, Action& action);
/// `cohort bench layouts`.
void add_bench_layouts(CLI::App& bench, Action& action);
/// `cohort bench calibration`.
void add_bench_calibration(CLI::App& bench, Action& action);
/// `cohort bench roofline`.
void add_bench_roofline(CLI::App& bench, Action& action);
/// `cohort bench checkpoint`.
void add_bench_checkpoint(CLI::App& bench, Action& action);
/// `cohort bench generate`.
void add_bench_generate(CLI::App& bench, Action& action);

struct KernelBenchOptions {
  std::string model = "gpt2-124m";  // a name in known_models() (kernels_shapes.hpp)
  Count micro_batch = 0;            // 0 = as step_shape() says
  int device = 0;                   // among the visible ones
  std::string tuning;               // file for choices of matrix products; "" = no tuning
  bool ladder = false;              // the portable kernels beside the tuned ones, instead of the kernels one by one
  bool json = false;
};

/// `cohort bench kernels`: the time of every CUDA kernel of a training step, beside what the card can reach. Prints a table, or
/// one JSON object a line: first the ceilings, then one kernel each. Returns the exit code. Uses one device of this process and
/// no MPI. Throws Error(launch) if there is no device. Two implementations, one of which CMake picks: kernels.cpp with its
/// siblings, and no_kernels.cpp for builds without CUDA, which refuses.
int bench_kernels(const KernelBenchOptions& options);

}  // namespace cohort
