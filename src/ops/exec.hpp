// Where an op runs: the first argument of every op. The loops that use it are in ops/parallel.hpp; this header stays free of
// Kokkos's, so that what only calls ops compiles fast.
//
// Legend for the shapes in this folder:
//   B samples of a micro-batch   T tokens of a sample   R rows = B*T        C model width     F width of the feed-forward layer
//   NH query heads               NKV key/value heads    HS head size = C/NH  V vocabulary
//
// Held by every op: outputs that are activations (or their gradients) are overwritten; gradients of parameters are accumulated
// into. Ops never communicate and never allocate; scratch memory comes from the caller (on a GPU, also from gpu::workspace()).
//
// Types: activations, their gradients and the parameters that layers read are fp32, bf16 or fp16, all of one type; arithmetic is
// fp32. Gradients of parameters, statistics of norms and attention, and optimizer state are fp32; losses are summed in fp64.
//
// The ladder of every op: a plain double-precision reference (ops/reference/); one Kokkos kernel, in the file named for the op,
// that runs on hosts and on GPUs of any maker (vocabulary: ops/parallel.hpp, ops/columns.hpp, ops/teams.hpp); and, where one
// wins, a tuned kernel: by oneDNN or CBLAS on CPUs (ops/cpu/), in CUDA or by cuBLASLt on NVIDIA's GPUs (ops/cuda/). One
// signature, one test. ops/tuned.hpp holds the table that chooses.
#pragma once

#include <cstdint>

#include "base/device_kind.hpp"

namespace cohort::ops {

/// Which rung of the ladder runs: the tuned kernel where there is one for the device, or the portable one always.
enum class Kernels : std::uint8_t { tuned, portable };

struct Exec {
  DeviceKind device = DeviceKind::cpu;
  bool tf32 = false;  // tuned: fp32 matrix products on a GPU may round their operands to 10 bits of mantissa
  bool fp8 = false;   // linear layers multiply in 8 bits (nn/linear_layer.hpp); products that are none of theirs do not
  Kernels kernels = Kernels::tuned;
  bool row_by_row = false;  // linear layers compute each row by itself, for few rows (ops/row_product.hpp)

  bool gpu() const { return device == DeviceKind::gpu; }
};

/// Whether the CUDA kernels were compiled. What names one tests it with `if constexpr`, so that a build without them needs no
/// stand-ins.
inline constexpr bool kCudaBuilt = COHORT_CUDA;

}  // namespace cohort::ops
