// Matrices of bf16 in 8 bits, on NVIDIA GPUs; ops/fp8.hpp has the formats and the scale. Implemented in fp8_quantize.cu.
//
// All pointers are device pointers, aligned to 16 bytes; matrices are row-major without gaps. Launchers only enqueue: no
// synchronisation, no allocation; launch errors are left for the caller's cudaGetLastError. Same input, same bits.
#pragma once

#include "base/units.hpp"
#include "ops/fp8.hpp"

struct CUstream_st;  // *CUstream_st is cudaStream_t

namespace cohort::ops::cuda {

/// *largest = the largest |x_i|; infinity or NaN if there is one, NaN before infinity. `elements` is a multiple of 8. Moves 2 n
/// bytes.
void largest_size(CUstream_st* stream, float* largest, const void* x, Count elements);

/// The codes of x [R, C] times m = fp8_multiplier(*largest): `rows` [R, C] and `transposed` [C, R], of which either may be null;
/// and *scale = 1 / m. C is a multiple of 16, with `transposed` R too. Reads x once: moves 2 R C bytes, and R C for each copy.
void quantize(CUstream_st* stream, Fp8 format, void* rows, void* transposed, float* scale, const float* largest, const void* x,
              Count row_count, Count columns);

}  // namespace cohort::ops::cuda
