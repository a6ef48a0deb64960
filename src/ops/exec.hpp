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
// The ladder of every op: a plain double-precision reference (ops/reference/), the CPU kernel (Kokkos and vector loops; 16-bit
// tensors are widened to fp32 for it, ops/fp32_copies.hpp), and on a GPU either a CUDA kernel (ops/cuda/) or, where bandwidth is
// all that counts and the op is rare, the same Kokkos kernel. One signature, one test.
#pragma once

#include "base/device.hpp"

namespace cohort::ops {

struct Exec {
  DeviceKind device = DeviceKind::cpu;
  bool tf32 = false;  // fp32 matrix products on a GPU may round their operands to 10 bits of mantissa

  bool cuda() const { return device == DeviceKind::cuda; }
};

/// Whether the CUDA kernels were compiled. An op tests it with `if constexpr`, so that a build without them needs no stand-ins.
inline constexpr bool kCudaBuilt = COHORT_CUDA;

}  // namespace cohort::ops
