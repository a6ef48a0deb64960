// AdamW and the gradient's norm on NVIDIA GPUs: the same functions as ops/adamw.hpp, over flat arrays that hold many parameters.
// The host never waits for the norm: what follows from it stays on the device, in OptimizerScalars.
//
// Master weights, moments and gradients are fp32. All pointers are device pointers. Fast if they are aligned to 16 bytes.
//
// Launchers only enqueue: no synchronisation, no allocation; launch errors are left for the caller's cudaGetLastError. Same
// input, same bits.
#pragma once

#include "base/dtype.hpp"
#include "base/units.hpp"
#include "ops/adamw_types.hpp"

struct CUstream_st;  // *CUstream_st is cudaStream_t

namespace cohort::ops::cuda {

/// One AdamW step (ops/adamw.hpp has the formula) over all ranges in one launch: updates weight, m and v; overwrites working with
/// the new weight if working_dtype is bf16 or fp16 (fp32: the master weight is what layers read, and working is not used).
/// `ranges` is a device array, sorted by begin, without overlaps, within [0, elements); elements outside all ranges stay as they
/// are. Moves 28 bytes an element, and 2 more with a working copy.
void adamw(CUstream_st* stream, float* weight, float* m, float* v, const float* gradient, DType working_dtype, void* working,
           const AdamWRange* ranges, int range_count, Count elements, const AdamWStep& step, const OptimizerScalars* scalars);

/// Bytes of scratch that sum_of_squares needs.
Bytes sum_of_squares_scratch_bytes();

/// *sum += sum of x_i^2 in double precision. Moves 4 n bytes.
void sum_of_squares(CUstream_st* stream, double* sum, const float* x, Count elements, void* scratch);

}  // namespace cohort::ops::cuda
