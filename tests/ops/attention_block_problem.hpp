// A whole attention problem cut into runs of neighbouring tokens, whose rows lie in another order than the tokens: last run
// first. The block op, run over all pairs of runs, must give what whole attention gives.
#pragma once

#include <algorithm>
#include <numeric>

#include "ops/attention_block.hpp"
#include "ops/attention_problem.hpp"

namespace cohort::ops {

class CutProblem {
 public:
  /// `lengths` of the runs, in the order of the tokens; their sum is shape.tokens.
  CutProblem(const AttentionShape& shape, const std::vector<Count>& lengths, double dropout = 0.0, double sharpness = 1.0)
      : whole(shape, dropout, sharpness) {
    Count position = 0;
    for (const Count length : lengths) {
      position += length;
      runs.push_back({shape.tokens - position, position - length, length});
    }
    COHORT_CHECK(position == shape.tokens, "runs of {} tokens for {}", position, shape.tokens);
    qkv = to_rows(whole.qkv, shape.packed_width());
    dout = to_rows(whole.dout, shape.width());
    final_out = to_rows(whole.forward.out, shape.width());
    final_lse = to_rows(whole.forward.lse, 1);
  }

  const AttentionShape& shape() const { return whole.shape; }
  Count queries_width() const { return shape().width(); }
  Count kv_width() const { return 2 * shape().kv_heads * shape().head_size; }
  AttentionBlock block(std::size_t queries, std::size_t keys) const { return {shape(), runs[queries], runs[keys]}; }
  /// The packed rows; and the key and value columns alone.
  Tensor q(Input packed) const { return tensor_of(packed, {shape().batch, shape().tokens, shape().packed_width()}); }
  Tensor kv(Input packed) const {
    return tensor_of(columns(packed, queries_width(), kv_width()), {shape().batch, shape().tokens, kv_width()});
  }
  Shape out_shape() const { return {shape().batch, shape().tokens, shape().width()}; }
  Shape lse_shape() const { return {shape().batch, shape().heads, shape().tokens}; }

  /// [.., T, columns] from the order of the tokens to that of the rows, and back.
  Array to_rows(Input by_token, Count width) const { return moved(by_token, width, true); }
  Array to_tokens(Input by_row, Count width) const { return moved(by_row, width, false); }

  Array columns(Input packed, Count first, Count count) const {
    Array result;
    for (std::size_t i = 0; i < packed.size(); ++i) {
      const Count column = static_cast<Count>(i) % shape().packed_width();
      if (column >= first && column < first + count) result.push_back(packed[i]);
    }
    return result;
  }

  AttentionProblem whole;
  std::vector<TokenRun> runs;             // in the order of the tokens
  Array qkv, dout, final_out, final_lse;  // in the order of the rows

 private:
  Array moved(Input from, Count width, bool to_rows) const {
    Array to(from.size());
    const Count sample = shape().tokens * width;
    for (Count first = 0; first < static_cast<Count>(from.size()); first += sample) {
      for (const TokenRun& run : runs) {
        const Count source = first + (to_rows ? run.position : run.row) * width;
        const Count target = first + (to_rows ? run.row : run.position) * width;
        std::copy_n(from.begin() + source, run.count * width, to.begin() + target);
      }
    }
    return to;
  }
};

struct BlockResult {
  Tensor out, lse;
};

inline BlockResult garbage_result(const CutProblem& p) {
  return {filled(p.out_shape(), kGarbage), filled(p.lse_shape(), kGarbage)};
}

/// Scratch of just the size that the block asks for.
inline Tensor scratch_of(const AttentionBlock& block) {
  return bytes_of(std::vector<std::uint8_t>(static_cast<std::size_t>(attention_block_scratch_bytes(block)), 0xff));
}

/// All blocks, merged: each run of queries begins with itself and goes round. out and lse in the order of the rows.
inline BlockResult merged_forward(const CutProblem& p, Input packed) {
  const Tensor q = p.q(packed), kv = p.kv(packed);
  const BlockResult total = garbage_result(p), part = garbage_result(p);
  for (std::size_t i = 0; i < p.runs.size(); ++i) {
    for (std::size_t step = 0; step < p.runs.size(); ++step) {
      const AttentionBlock block = p.block(i, (i + step) % p.runs.size());
      const BlockResult& to = step == 0 ? total : part;
      attention_block_forward(test_exec(), block, to.out, to.lse, q, kv, scratch_of(block), p.whole.key);
      if (step > 0) attention_merge(test_exec(), block, total.out, total.lse, part.out, part.lse);
    }
  }
  return total;
}

struct BlockGradients {
  Tensor dq, dkv;
};

/// The gradients of all blocks, from the reference's out and lse, added up.
inline BlockGradients added_backward(const CutProblem& p) {
  const Tensor q = p.q(p.qkv), kv = p.kv(p.qkv);
  const Tensor dout = tensor_of(p.dout, p.out_shape()), out = tensor_of(p.final_out, p.out_shape());
  const Tensor lse = tensor_of(p.final_lse, p.lse_shape());
  const BlockGradients gradients{filled(p.out_shape(), 0.0f), filled(kv.shape(), 0.0f)};
  for (std::size_t i = 0; i < p.runs.size(); ++i) {
    for (std::size_t j = 0; j < p.runs.size(); ++j) {
      const AttentionBlock block = p.block(i, j);
      attention_block_backward(test_exec(), block, gradients.dq, gradients.dkv, dout, out, lse, q, kv, scratch_of(block),
                               p.whole.key);
    }
  }
  return gradients;
}

}  // namespace cohort::ops
