#include "base/error.hpp"
#include "commands/bench/bench.hpp"

namespace cohort {

int bench_kernels(const KernelBenchOptions&) {
  fail(ExitCode::launch,
       "cohort bench kernels measures CUDA kernels, and this build of Cohort has no CUDA: build the preset cuda");
}

}  // namespace cohort
