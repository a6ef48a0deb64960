// Softmax, cross-entropy and their gradient on NVIDIA GPUs: the same functions as ops/cross_entropy.hpp.
//
// logits [R, V] of type `dtype` (fp32, bf16 or fp16); row r begins at element r * stride, stride >= V; arithmetic is fp32.
// Columns V to stride - 1 are padding whose content does not matter. All pointers are device pointers. Fast if the stride is a
// multiple of 16 bytes and logits is aligned to 16 bytes. Targets lie in [0, V) or are kIgnoredTarget (-1): checked where batches
// are made, since a kernel could not say which one is wrong.
//
// Launchers only enqueue: no synchronisation, no allocation; launch errors are left for the caller's cudaGetLastError. Same
// input, same bits.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "base/units.hpp"

struct CUstream_st;  // *CUstream_st is cudaStream_t

namespace cohort::ops::cuda {

/// *loss += sum over rows of -log softmax(logits)[target]; ignored rows count nothing. Overwrites row_losses [R] with the terms
/// of that sum. Moves R V sizeof(T) bytes.
void cross_entropy_forward(CUstream_st* stream, DType dtype, double* loss, float* row_losses, const void* logits,
                           const std::int32_t* targets, Count rows, Count vocabulary, Count stride);

/// As above, and overwrites logits with scale * (softmax(logits) - onehot(target)), the gradient of scale * loss; ignored rows
/// and padding columns become 0. Reads and writes the logits once where a row fits in shared memory (bf16: V up to about 115,000
/// on Hopper); what does not fit is read again, from the cache. Moves 2 R V sizeof(T) bytes.
void cross_entropy_forward_backward(CUstream_st* stream, DType dtype, double* loss, float* row_losses, void* logits,
                                    const std::int32_t* targets, Count rows, Count vocabulary, Count stride, float scale);

}  // namespace cohort::ops::cuda
