// 16-bit storage for the CPU kernels, which know only fp32: an op that is given bf16 or fp16 tensors runs its fp32 kernel on
// copies.
//
//   void gelu_forward(const Exec& exec, const Tensor& out, const Tensor& x, const Tensor& bias) {
//     if (is_narrow(out)) {
//       Fp32Copies fp32;
//       return gelu_forward(exec, fp32.out(out), fp32.in(x), fp32.in(bias));
//     }
//     ...
//
// So each op reads its inputs exactly, computes in fp32, and rounds each element of its outputs once: what a GPU kernel does that
// keeps its sums in registers. The price is memory traffic: a narrow input moves 2 + 4 bytes an element before the kernel reads
// it, an output 4 + 2 after; on the CPU, 16 bits are there to teach and to test, not for speed.
//
// The copies lie in one scratch arena of the process, which grows to the need of the largest op and is kept: after the first
// step, nothing is allocated. One thread at a time; objects of this class must go in the reverse order of their making, as local
// variables do.
#pragma once

#include <array>

#include "tensor/arena.hpp"

namespace cohort::ops {

/// Whether the elements are bf16 or fp16. False for an undefined tensor.
inline bool is_narrow(const Tensor& tensor) { return tensor.dtype() == DType::bf16 || tensor.dtype() == DType::f16; }

class Fp32Copies {
 public:
  Fp32Copies();
  /// Rounds what out() and inout() gave into their tensors (to nearest, ties to even), in the order of the calls, and gives the
  /// memory back.
  ~Fp32Copies();
  Fp32Copies(const Fp32Copies&) = delete;
  Fp32Copies& operator=(const Fp32Copies&) = delete;

  // Each returns an fp32 tensor of the same shape, valid as long as this object; or the tensor itself if it is not narrow (fp32,
  // whole numbers, undefined). Tensors are on the host.
  //
  // A tensor that an op both reads and overwrites may be passed to in() and to out(): what is read is its old content.

  /// For an input: its values, exactly.
  Tensor in(const Tensor& tensor);
  /// For an output that is overwritten: uninitialised.
  Tensor out(const Tensor& tensor);
  /// For an output that is added to: its values, and rounded back at the end.
  Tensor inout(const Tensor& tensor);

 private:
  struct Output {
    Tensor narrow, fp32;
  };
  static constexpr std::size_t kMostOutputs = 8;  // no op writes more tensors; a fixed number, so that nothing is allocated

  Arena::Scope scope_;
  std::array<Output, kMostOutputs> outputs_;
  std::size_t output_count_ = 0;
};

}  // namespace cohort::ops
