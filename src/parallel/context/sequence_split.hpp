// Which tokens of a sample each rank of a context-parallel group holds, and what of causal attention falls to whom. Pure
// arithmetic.
//
// A token sees itself and those before it, so late tokens are more work than early ones: N neighbouring parts would leave the
// last rank with 2 N - 1 times the work of the first. So the T tokens are cut into 2 N chunks, and rank r holds chunk r of the
// early ones and chunk 2 N - 1 - r of the late ones ("zigzag"; Llama Team 2024, "The Llama 3 Herd of Models", section 3.3.2;
// Brandon et al. 2023, "Striped Attention", balance the same work by interleaving single tokens). Every rank then has the same
// number of visible (query, key) pairs: over all, and against the keys of each other rank. For N = 2:
//
//            keys: chunk 0 1 2 3
//   queries  chunk 0     \            rank 0      \ the diagonal: c (c + 1) / 2 pairs of a chunk of c tokens
//            chunk 1     # \          rank 1      # all: c c pairs
//            chunk 2     # # \        rank 1
//            chunk 3     # # # \      rank 0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/token_rows.hpp"

namespace cohort {

class SequenceSplit {
 public:
  /// Samples of `tokens` tokens over `ranks` ranks. Throws Error(config), naming the nearest lengths that fit, if 2 `ranks` does
  /// not divide `tokens`.
  SequenceSplit(Count tokens, int ranks);

  Count tokens() const { return tokens_; }  // T
  int ranks() const { return ranks_; }      // N
  Count tokens_of_rank() const { return tokens_ / ranks_; }

  /// The rows of `rank`: chunk `rank`, then chunk 2 N - 1 - rank.
  ops::TokenRows rows_of(int rank) const;

  /// Of values [B, T] of whole samples (inputs, targets), those of `rank`: [B, T / N].
  std::vector<std::int32_t> part_of(int rank, std::span<const std::int32_t> whole) const;

  /// The runs of queries of `rank` with the runs of keys of `owner` of which they see something.
  struct RunPair {
    ops::TokenRun queries, keys;
  };
  std::vector<RunPair> visible_runs(int rank, int owner) const;

 private:
  Count tokens_;
  int ranks_;
};

}  // namespace cohort
