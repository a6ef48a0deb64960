// Layer and RMS normalisation on NVIDIA GPUs: the same functions as ops/norm.hpp, whose formulas are in ops/reference/norm.hpp.
//
// x, out, dout, dx, weight and bias are of type `dtype` (fp32, bf16 or fp16), arithmetic and statistics (mean, rstd) are fp32,
// and gradients of parameters are fp32 and accumulated into. All pointers are device pointers. Rows are contiguous, R of C
// columns with 1 <= C <= kMaxNormColumns. Fast if C is a multiple of 16 bytes and all pointers are aligned to 16 bytes.
//
// Launchers only enqueue: no synchronisation, no allocation; launch errors are left for the caller's cudaGetLastError. Same input
// on the same kind of card, same bits.
#pragma once

#include "base/dtype.hpp"
#include "base/units.hpp"

struct CUstream_st;  // *CUstream_st is cudaStream_t

namespace cohort::ops::cuda {

inline constexpr Count kMaxNormColumns = 16384;

/// out = (x - mean) * rstd * weight + bias. Overwrites out, mean [R] and rstd [R]. Moves 2 R C sizeof(T) bytes.
void layernorm_forward(CUstream_st* stream, DType dtype, void* out, float* mean, float* rstd, const void* x, const void* weight,
                       const void* bias, Count rows, Count columns, float epsilon);

/// out = x * rstd * weight. Overwrites out and rstd [R]. Moves 2 R C sizeof(T) bytes.
void rmsnorm_forward(CUstream_st* stream, DType dtype, void* out, float* rstd, const void* x, const void* weight, Count rows,
                     Count columns, float epsilon);

/// Bytes of scratch that either backward needs: the column sums of each block, at most about 24 MiB.
Bytes norm_backward_scratch_bytes(Count rows, Count columns);

/// dx += gradient with respect to x; dweight [C] and dbias [C] += their gradients. One pass: moves 4 R C sizeof(T) bytes.
void layernorm_backward(CUstream_st* stream, DType dtype, void* dx, float* dweight, float* dbias, const void* dout, const void* x,
                        const void* weight, const float* mean, const float* rstd, Count rows, Count columns, void* scratch);

/// As layernorm_backward, without mean and bias.
void rmsnorm_backward(CUstream_st* stream, DType dtype, void* dx, float* dweight, const void* dout, const void* x,
                      const void* weight, const float* rstd, Count rows, Count columns, void* scratch);

}  // namespace cohort::ops::cuda
