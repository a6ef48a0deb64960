// A whole attention problem cut into runs of neighbouring tokens, whose rows lie in another order than the tokens: last run
// first. The block op, run over all pairs of runs, must give what whole attention gives.
#pragma once

#include <algorithm>
#include <numeric>

#include "ops/attention_problem.hpp"
#include "ops/partial_attention.hpp"
#include "ops/reference/partial_attention.hpp"

namespace cohort::ops {

class CutProblem {
 public:
  /// `lengths` of the runs, in the order of the tokens; their sum is shape.tokens. Activations are of `type_`.
  CutProblem(const AttentionShape& shape, const std::vector<Count>& lengths, double dropout = 0.0, double sharpness = 1.0,
             DType type_ = DType::f32, const std::vector<std::int32_t>& first_keys = {})
      : whole(shape, dropout, sharpness, first_keys), type(type_) {
    whole.round_to(type);
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
  PartialAttention block(std::size_t queries, std::size_t keys) const { return {shape(), runs[queries], runs[keys]}; }
  /// The packed rows; and the key and value columns alone.
  Tensor q(Input packed) const { return activation(packed, {shape().batch, shape().tokens, shape().packed_width()}); }
  Tensor kv(Input packed) const {
    return activation(columns(packed, queries_width(), kv_width()), {shape().batch, shape().tokens, kv_width()});
  }
  Tensor activation(Input values, const Shape& of_tensor) const { return tensor_of_type(type, values, of_tensor); }
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
  DType type;
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
inline Tensor scratch_of(const PartialAttention& block, DType type = DType::f32) {
  const Bytes bytes = partial_attention_scratch_bytes({.device = test_device()}, block, type);
  return bytes_of(std::vector<std::uint8_t>(static_cast<std::size_t>(bytes), 0xff));
}

/// All blocks, merged: each run of queries begins with itself and goes round. out and lse in the order of the rows.
inline BlockResult merged_forward(const CutProblem& p, Input packed) {
  const Tensor q = p.q(packed), kv = p.kv(packed);
  const BlockResult total = garbage_result(p), part = garbage_result(p);
  for (std::size_t i = 0; i < p.runs.size(); ++i) {
    for (std::size_t step = 0; step < p.runs.size(); ++step) {
      const PartialAttention block = p.block(i, (i + step) % p.runs.size());
      const BlockResult& to = step == 0 ? total : part;
      partial_attention_forward(test_exec(), block, to.out, to.lse, q, kv, scratch_of(block, p.type), p.whole.key);
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
  const Tensor dout = p.activation(p.dout, p.out_shape()), out = p.activation(p.final_out, p.out_shape());
  const Tensor lse = tensor_of(p.final_lse, p.lse_shape());
  const BlockGradients gradients{filled(p.out_shape(), 0.0f), filled(kv.shape(), 0.0f)};
  for (std::size_t i = 0; i < p.runs.size(); ++i) {
    for (std::size_t j = 0; j < p.runs.size(); ++j) {
      const PartialAttention block = p.block(i, j);
      partial_attention_backward(test_exec(), block, gradients.dq, gradients.dkv, dout, out, lse, q, kv,
                                 scratch_of(block, p.type), p.whole.key);
    }
  }
  return gradients;
}

// One head of one sample, so that the reference's arrays are the op's tensors; kv has the key head first, then the value head.
struct OneHead {
  OneHead(const reference::Block& block_, Count tokens, DType type_ = DType::f32) : block(block_), type(type_) {
    op.sequence = {1, tokens, 1, 1, block.head_size};
    op.queries = {0, block.first_query, block.queries};
    op.keys = {0, block.first_key, block.keys};
    for (Array* values : {&q, &k, &v}) *values = rounded(*values);
    kv = side_by_side(k, v);
  }
  /// The numbers that the type has.
  Array rounded(Input values) const { return values_of(tensor_of_type(type, values, {static_cast<Count>(values.size())})); }
  /// [keys, 2 HS] from two of [keys, HS].
  Array side_by_side(Input left, Input right) const {
    Array both;
    for (Count j = 0; j < block.keys; ++j) {
      for (const Input half : {left, right})
        both.insert(both.end(), half.begin() + j * block.head_size, half.begin() + (j + 1) * block.head_size);
    }
    return both;
  }
  Shape queries_shape() const { return {1, block.queries, block.head_size}; }
  Shape kv_shape() const { return {1, block.keys, 2 * block.head_size}; }
  Tensor query_activation(Input values) const { return tensor_of_type(type, values, queries_shape()); }
  Tensor query_tensor(Input values) const { return tensor_of(values, queries_shape()); }
  Tensor lse_tensor(Input values) const { return tensor_of(values, {1, 1, block.queries}); }
  Tensor kv_activation() const { return tensor_of_type(type, kv, kv_shape()); }

  reference::Block block;
  DType type;
  PartialAttention op;
  Array q = random_values(block.queries * block.head_size, 1), k = random_values(block.keys * block.head_size, 2),
        v = random_values(block.keys * block.head_size, 3), kv;
};

/// {out, lse} of the block.
inline BlockResult run_forward(const OneHead& p) {
  const BlockResult result{filled(p.queries_shape(), kGarbage), filled({1, 1, p.block.queries}, kGarbage)};
  partial_attention_forward(test_exec(), p.op, result.out, result.lse, p.query_activation(p.q), p.kv_activation(),
                            scratch_of(p.op, p.type));
  return result;
}

/// A backward problem whose result is one over more keys than the block's: twice the denominator, and any out.
struct OneHeadBackward {
  explicit OneHeadBackward(const OneHead& p_) : p(p_), whole(reference::block_forward(p.q, p.k, p.v, p.block)) {
    for (double& lse : whole.lse) lse = std::isinf(lse) ? 1.0 : static_cast<double>(static_cast<float>(lse + std::log(2.0)));
    whole.out = p.rounded(random_values(p.block.queries * p.block.head_size, 4));
  }
  /// Adds to what is in these.
  void run(const BlockGradients& gradients) const {
    partial_attention_backward(test_exec(), p.op, gradients.dq, gradients.dkv, p.query_activation(dout),
                               p.query_activation(whole.out), p.lse_tensor(whole.lse), p.query_activation(p.q), p.kv_activation(),
                               scratch_of(p.op, p.type));
  }
  reference::BlockBackward expected() const { return reference::block_backward(dout, whole, p.q, p.k, p.v, p.block); }

  const OneHead& p;
  reference::BlockForward whole;
  Array dout = p.rounded(random_values(p.block.queries * p.block.head_size, 5));
};

/// All keys visible, the causal triangle, some queries that see nothing, keys that begin between queries, none.
inline const reference::Block kBlocks[]{{70, 9, 40, 0, 8}, {9, 9, 30, 30, 8}, {9, 5, 30, 33, 8}, {80, 80, 0, 10, 8},
                                        {70, 9, 0, 66, 8}, {5, 9, 30, 26, 8}, {9, 9, 0, 50, 8},  {1, 1, 7, 7, 8}};
inline std::string describe(const reference::Block& block) {
  return fmt::format("queries {} at {}, keys {} at {}", block.queries, block.first_query, block.keys, block.first_key);
}

}  // namespace cohort::ops
