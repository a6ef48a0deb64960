// Rotary positions on NVIDIA GPUs: the same functions as in ops/attention.hpp (Su et al. 2021, arXiv 2104.09864, section 3.4.2).
//
// qkv [B, T, (NH + 2 NKV) HS] is of type `dtype` (fp32, bf16 or fp16); cosines and sines [T, HS/2] are fp32; arithmetic is fp32.
// All pointers are device pointers; HS is even. Fast if HS/2 is a multiple of 16 bytes and qkv is aligned to 16 bytes.
//
// Launchers only enqueue: no synchronisation, no allocation; launch errors are left for the caller's cudaGetLastError.
#pragma once

#include "base/dtype.hpp"
#include "ops/attention_shape.hpp"

struct CUstream_st;  // *CUstream_st is cudaStream_t

namespace cohort::ops::cuda {

/// Rotates the query and key heads of qkv in place: elements (a, b) = (i, i + HS/2) of a head at position t become
/// (a cos - b sin, b cos + a sin), with the table's entry (t, i). Moves 2 B T (NH + NKV) HS sizeof(T) bytes.
void rope_forward(CUstream_st* stream, DType dtype, const AttentionShape& shape, void* qkv, const float* cosines,
                  const float* sines);

/// The inverse rotation, on dqkv in place.
void rope_backward(CUstream_st* stream, DType dtype, const AttentionShape& shape, void* dqkv, const float* cosines,
                   const float* sines);

}  // namespace cohort::ops::cuda
