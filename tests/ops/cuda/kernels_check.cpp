// Checks every bandwidth-bound CUDA kernel against its double-precision reference, then times them all. Prints one line per check
// and exits with 1 if one failed (2 if CUDA itself failed); `kernels_check time` only times, `kernels_check test` only checks.
//
// Build: the .cu files by nvcc (see norm_forward.cu, norm_backward.cu, activation.cu, column_sums.cu, pointwise.cu, rope.cu,
// cross_entropy.cu, embedding.cu, token_sort.cu, adamw.cu in the folders of src/ops/cuda), this file and kernels/*.cpp by any
// C++20 compiler with -Isrc -Itests and the CUDA headers; link with cudart.
#include "ops/cuda/kernels/harness.hpp"

int main(int argc, char** argv) {
  using namespace cohort::ops::check;
  const std::string what = argc > 1 ? argv[1] : "all";
  cudaDeviceProp device{};
  must(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  std::printf("%s, %d multiprocessors, %d MB of second-level cache\n", device.name, device.multiProcessorCount,
              device.l2CacheSize >> 20);
  if (what != "time") {
    check_pointwise();
    check_norms();
    check_rope();
    check_cross_entropy();
    check_embedding();
    check_adamw();
    std::printf("%d checks failed\n", failures);
  }
  if (what != "test") time_kernels();
  return failures == 0 ? 0 : 1;
}
