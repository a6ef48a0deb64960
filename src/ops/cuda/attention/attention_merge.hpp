// Merging partial results of attention on a GPU: ops::attention_merge.
#pragma once

#include "ops/attention_shape.hpp"
#include "ops/token_rows.hpp"

struct CUstream_st;  // *CUstream_st is cudaStream_t

namespace cohort::ops::cuda {

/// For rows `queries` of out, part_out [B, rows, NH HS] and lse, part_lse [B, NH, rows], all fp32 on the device, out and lse as
/// in ops::attention_merge. Of `shape` B, NH and HS count. Only enqueues. Moves 12 bytes an element; no atomics: same bits each
/// time.
void attention_merge(CUstream_st* stream, const AttentionShape& shape, const TokenRun& queries, Count rows, float* out,
                     float* lse, const float* part_out, const float* part_lse);

}  // namespace cohort::ops::cuda
