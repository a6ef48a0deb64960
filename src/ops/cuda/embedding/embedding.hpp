// Token and position embeddings on NVIDIA GPUs: the same functions as ops/embedding.hpp.
//
// Tables and activations are of type `dtype` (fp32, bf16 or fp16), gradients of tables are fp32 and accumulated into. tokens [R]
// lie in [0, V): checked where batches are made. All pointers are device pointers. Fast if rows are a multiple of 16 bytes and
// pointers aligned to 16 bytes.
//
// Launchers only enqueue: no synchronisation, no allocation; launch errors are left for the caller's cudaGetLastError. Same input
// on the same kind of card, same bits.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "base/units.hpp"

struct CUstream_st;  // *CUstream_st is cudaStream_t

namespace cohort::ops::cuda {

/// out[r] = token_table[tokens[r]] + position_table[r mod T]. out [R, C]; token_table [V, C]; position_table [T, C], or null for
/// none. Moves between R C sizeof(T) (rows of the tables found in the cache) and 2 R C sizeof(T) bytes.
void embedding_forward(CUstream_st* stream, DType dtype, void* out, const std::int32_t* tokens, const void* token_table,
                       const void* position_table, Count rows, Count positions, Count columns);

/// Bytes of scratch that backward needs: about 17 bytes a row and C/8 bytes a row for runs of one token that blocks share.
Bytes embedding_backward_scratch_bytes(Count rows, Count positions, Count columns);

/// dtoken_table[tokens[r]] += dout[r], and dposition_table[r mod T] += dout[r] if that is not null. R is a multiple of T.
/// The rows are sorted by token first; then every entry has its readers in one run, added in row order within pieces of fixed
/// length, and piece by piece. Moves R C sizeof(T) bytes, once more for positions, and 8 C bytes for each token that occurs.
void embedding_backward(CUstream_st* stream, DType dtype, float* dtoken_table, float* dposition_table, const std::int32_t* tokens,
                        const void* dout, Count rows, Count vocabulary, Count positions, Count columns, void* scratch);

}  // namespace cohort::ops::cuda
