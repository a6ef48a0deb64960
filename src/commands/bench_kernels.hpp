// `cohort bench kernels`: the time of every CUDA kernel of a training step, beside what the card can reach. Two implementations,
// one of which CMake picks: bench_kernels.cpp with its siblings, and no_bench_kernels.cpp for builds without CUDA, which refuses.
#pragma once

#include <string>

#include "base/units.hpp"

namespace cohort {

struct KernelBenchOptions {
  std::string model = "gpt2-124M";  // a name in kStepShapes (bench_kernels_shapes.hpp)
  Count micro_batch = 0;            // 0 = that of the shape
  int device = 0;                   // among the visible ones
  std::string tuning;               // file for choices of matrix products; "" = no tuning
  bool ladder = false;              // the portable kernels beside the tuned ones, instead of the kernels one by one
  bool json = false;
};

/// Measures and prints a table, or one JSON object a line: first the ceilings, then one kernel each. Returns the exit code. Uses
/// one device of this process and no MPI. Throws Error(launch) if there is no device.
int bench_kernels(const KernelBenchOptions& options);

}  // namespace cohort
