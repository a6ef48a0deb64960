#include <cuda_runtime.h>

#include "gpu/device.hpp"
#include "gpu/memory_probe.hpp"

namespace cohort::gpu {
namespace {

constexpr Bytes kGranule = 2 * kMiB;  // the driver's own: it maps device memory in pages of this size

bool fits(Bytes granules) {
  void* block = nullptr;
  if (cudaMalloc(&block, static_cast<std::size_t>(granules * kGranule)) == cudaSuccess) {
    cudaFree(block);
    return true;
  }
  cudaGetLastError();  // a failed allocation stays the "last error" otherwise
  return false;
}

}  // namespace

Bytes largest_allocation() {
  Bytes least = 0;  // granules that fit
  Bytes most = memory().free / kGranule;
  if (most > 0 && fits(most)) return most * kGranule;
  while (most - least > 1) {  // `most` does not fit
    const Bytes middle = least + (most - least) / 2;
    (fits(middle) ? least : most) = middle;
  }
  return least * kGranule;
}

}  // namespace cohort::gpu
