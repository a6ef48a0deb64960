// Sorts the rows of a micro-batch by their token, on the GPU: a stable radix sort, digit by digit from the least (Knuth, "The Art
// of Computer Programming", vol. 3, 5.2.5). Stable means that the rows of one token stay in row order, which is what makes sums
// over them come out in the same bits on every run.
#pragma once

#include <cstdint>

#include "base/units.hpp"

struct CUstream_st;  // *CUstream_st is cudaStream_t

namespace cohort::ops::cuda {

struct SortedTokens {
  const std::int32_t* tokens;  // [R], ascending
  const std::int32_t* rows;    // [R], where each came from
};

Bytes sort_tokens_scratch_bytes(Count rows);

/// tokens [R] in [0, vocabulary), 1 <= R < 2^31. The result lies in scratch.
SortedTokens sort_tokens(CUstream_st* stream, const std::int32_t* tokens, Count rows, Count vocabulary, void* scratch);

}  // namespace cohort::ops::cuda
