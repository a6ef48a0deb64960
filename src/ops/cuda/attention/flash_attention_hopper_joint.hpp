// Backward of whole attention with heads of 64 on Hopper, in one walk over the tiles: see flash_attention_hopper_joint.cuh. Data,
// types, enqueueing and errors as in flash_attention_hopper.hpp.
#pragma once

#include "base/dtype.hpp"
#include "ops/cuda/attention/flash_attention.hpp"

struct CUstream_st;

namespace cohort::ops::cuda::hopper::joint {

inline constexpr int kHeadSize = 64;

/// Of dqkv: `dq` is its first element, `dk` and `dv` are the first of key head 0 and of value head 0.
struct JointBackward {
  void* dq;
  void* dk;
  void* dv;
  const void* dout;
  const void* out;
  const float* lse;
  const void* qkv;
  void* scratch;  // of scratch_bytes, aligned to 128
};

/// For each row of each head, rounded up to 128: 64 floats of dq and three numbers of statistics; and its turns.
Bytes scratch_bytes(const AttentionShape& shape);

/// Overwrites all of dqkv.
void backward(CUstream_st* stream, DType dtype, const AttentionShape& shape, const JointBackward& a);

}  // namespace cohort::ops::cuda::hopper::joint
