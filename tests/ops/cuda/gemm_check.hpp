// What the two halves of gemm_check share: errors of CUDA, device memory, and the count of failed checks.
#pragma once

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/error.hpp"
#include "gpu/device.hpp"

namespace cohort::gemm_check {

inline void cuda(cudaError_t status, const char* what) {
  if (status != cudaSuccess) fail(ExitCode::internal, "{}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
}

inline void wait() { cuda(cudaStreamSynchronize(gpu::compute_stream()), "waiting for the device"); }

/// A block of device memory.
class Block {
 public:
  explicit Block(Bytes bytes) : data_(gpu::allocate(bytes, "gemm_check")) {}
  ~Block() { gpu::release(data_); }
  Block(Block&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  void* data() const { return data_; }

 private:
  void* data_;
};

inline int failures = 0;

/// Prints one line for a check.
inline void report(const std::string& name, bool passed, const std::string& detail) {
  fmt::print("{:<4} {:<64} {}\n", passed ? "PASS" : "FAIL", name, detail);
  if (!passed) ++failures;
}

/// Times the products of GPT-2 124M with the heuristic's first choice and tuned; prints tables.
void time_products();

}  // namespace cohort::gemm_check
