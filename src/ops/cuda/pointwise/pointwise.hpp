// Kernels on NVIDIA GPUs that treat every element for itself, and column sums: the same functions as ops/activation.hpp and
// ops/pointwise.hpp. Implemented in activation.cu, column_sums.cu and pointwise.cu.
//
// Activations and biases are of type `dtype` (fp32, bf16 or fp16), arithmetic is fp32, and gradients of parameters are fp32 and
// accumulated into. All pointers are device pointers. Fast if rows are a multiple of 16 bytes and pointers aligned to 16 bytes.
//
// Launchers only enqueue: no synchronisation, no allocation; launch errors are left for the caller's cudaGetLastError. Same input
// on the same kind of card, same bits.
#pragma once

#include "base/dtype.hpp"
#include "base/units.hpp"

struct CUstream_st;  // *CUstream_st is cudaStream_t

namespace cohort::ops::cuda {

/// Bytes of scratch that column_sums and the activations' backward need: the sums of each block, at most 8 MiB.
Bytes column_sums_scratch_bytes(Count rows, Count columns);

/// sums [N] += column sums of x [R, N]. Also for few rows of many columns: the gradient of position embeddings is the sum over
/// the batch of dout [B, T C]. Moves R N sizeof(T) bytes.
void column_sums(CUstream_st* stream, DType dtype, float* sums, const void* x, Count rows, Count columns, void* scratch);

/// out = gelu(x + bias), gelu(z) = z/2 (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3))). x, out [R, F]; bias [F], or null for none.
/// out may be x. Moves 2 R F sizeof(T) bytes.
void gelu_forward(CUstream_st* stream, DType dtype, void* out, const void* x, const void* bias, Count rows, Count columns);

/// dx = dout * gelu'(x + bias); if dbias [F] is not null, dbias += column sums of dx (as stored). bias may be null; scratch is
/// not read if dbias is null. dx may be dout. Moves 3 R F sizeof(T) bytes.
void gelu_backward(CUstream_st* stream, DType dtype, void* dx, float* dbias, const void* dout, const void* x, const void* bias,
                   Count rows, Count columns, void* scratch);

/// out = max(0, x + bias). All else as for gelu.
void relu_forward(CUstream_st* stream, DType dtype, void* out, const void* x, const void* bias, Count rows, Count columns);
void relu_backward(CUstream_st* stream, DType dtype, void* dx, float* dbias, const void* dout, const void* x, const void* bias,
                   Count rows, Count columns, void* scratch);

/// out [R, F] = silu(gate) * up, where each row of x [R, 2F] holds the gate's F values and then up's. Moves 3 R F sizeof(T)
/// bytes.
void swiglu_forward(CUstream_st* stream, DType dtype, void* out, const void* x, Count rows, Count columns);

/// dx [R, 2F] = gradient with respect to x, overwritten; dx may be x. `columns` is F. Moves 5 R F sizeof(T) bytes.
void swiglu_backward(CUstream_st* stream, DType dtype, void* dx, const void* dout, const void* x, Count rows, Count columns);

/// x = value. Moves n sizeof(T) bytes.
void fill(CUstream_st* stream, DType dtype, void* x, float value, Count elements);

/// out = x, by 16-byte accesses: the ceiling that the other kernels are measured against. Both aligned to 16 bytes, `bytes` a
/// multiple of 16. Moves 2 bytes per byte.
void copy(CUstream_st* stream, void* out, const void* x, Bytes bytes);

}  // namespace cohort::ops::cuda
