// One attention problem: inputs, the reference's answers, how far fp32 may be from them, and the op run on it.
#pragma once

#include "ops/attention.hpp"
#include "ops/compare.hpp"
#include "ops/reference/attention.hpp"
#include "ops/reference/pointwise.hpp"

namespace cohort::ops {

struct AttentionProblem {
  /// `first_keys_` [B, T] are those of packed documents, or empty.
  AttentionProblem(const AttentionShape& shape_, double dropout_probability = 0.0, double sharpness_ = 1.0,
                   const std::vector<std::int32_t>& first_keys_ = {})
      : shape(shape_),
        heads{shape.batch, shape.tokens, shape.heads, shape.kv_heads, shape.head_size},
        sharpness(sharpness_),
        first_keys(first_keys_),
        device_first_keys(first_keys) {
    if (!first_keys.empty()) shape.first_keys = device_first_keys.span().data();
    for (Count b = 0; b < shape.batch; ++b) slots.push_back(3 * b + 1);
    device_slots = Indices<Count>(slots);
    key = {dropout_probability, 5, 6, 7, device_slots.span()};
    if (dropout_probability > 0.0) {
      factors = reference::dropout_factors(dropout_probability, 5, 6, 7, slots, shape.heads * shape.tokens * shape.tokens);
    }
    qkv = random_values(shape.batch * shape.tokens * shape.packed_width(), 1);
    for (Count i = 0; i < static_cast<Count>(qkv.size()); ++i) {  // sharper queries: a power of two keeps them exact
      if (i % shape.packed_width() < shape.width()) qkv[i] *= sharpness;
    }
    dout = random_values(shape.batch * shape.tokens * shape.width(), 2);
    forward = reference::attention_forward(qkv, heads, factors, first_keys);
  }
  AttentionProblem(const AttentionProblem&) = delete;  // key and shape point into memory of the device
  AttentionProblem& operator=(const AttentionProblem&) = delete;

  /// What an op in this type sees: inputs rounded to it.
  void round_to(DType type) {
    for (Array* values : {&qkv, &dout}) *values = values_of(tensor_of_type(type, *values, {static_cast<Count>(values->size())}));
    forward = reference::attention_forward(qkv, heads, factors, first_keys);
  }

  Array expected_gradient() const { return reference::attention_backward(dout, qkv, heads, factors, first_keys); }

  double head_size() const { return static_cast<double>(shape.head_size); }
  // The error of a score. The inputs are standard normal (times sharpness), so the partial sums of q . k walk randomly to
  // sqrt(HS), and the HS roundings of them come to 0.2 HS kEps (root of the sum of squares); ten of these, divided by sqrt(HS) as
  // the score is.
  double score_error() const { return (2.0 * std::sqrt(head_size()) + 4.0) * kEps * sharpness; }
  double largest_lse() const {
    double largest = 0.0;
    for (const double lse : forward.lse) largest = std::max(largest, std::abs(lse));
    return largest;
  }
  // The error of a softmax weight relative to itself: exp turns the absolute error of its argument, of score and maximum or of
  // score and lse, into a relative one; then a sum of T terms is divided by.
  double weight_error() const { return 2.0 * score_error() + 2.0 * kEps * largest_lse() + sum_error(shape.tokens); }
  // 1 / (1 - p) magnifies every term.
  double dropout_scale() const { return 1.0 / (1.0 - key.probability); }

  // Relative to sum_j p_ij |v_j|.
  Array out_tolerance() const {
    Array sizes(qkv);
    for (double& value : sizes) value = std::abs(value);
    for (Count i = 0; i < static_cast<Count>(qkv.size()); ++i) {
      if (i % shape.packed_width() < (shape.heads + shape.kv_heads) * shape.head_size) sizes[i] = qkv[i];  // q and k as they are
    }
    Array tolerance = reference::attention_forward(sizes, heads, factors, first_keys).out;
    for (double& value : tolerance) value *= weight_error() + sum_error(shape.tokens);
    return tolerance;
  }
  double lse_tolerance() const { return score_error() + sum_error(shape.tokens) + kEps * largest_lse(); }

  // ds_ij = p_ij (dp_ij - D_i): the bracket is a difference of numbers of deviation sqrt(HS), below 5 sqrt(2 HS), each with the
  // error of a dot product as in score_error. What ds is off by, relative to p_ij, is then summed over T terms with |k| or |q|.
  Array gradient_tolerance() const {
    const double bracket = 7.0 * std::sqrt(head_size());
    const double ds = dropout_scale() * (bracket * (weight_error() + 2.0 * sum_error(shape.tokens)) + 4.0 * head_size() * kEps);
    const double dv = dropout_scale() * (weight_error() + 2.0 * sum_error(shape.tokens));
    const double scale = 1.0 / std::sqrt(head_size());
    const Count tokens = shape.tokens, hs = shape.head_size, width = shape.packed_width();
    Array tolerance(qkv.size(), 0.0);
    for (Count b = 0; b < shape.batch; ++b) {
      for (Count h = 0; h < shape.heads; ++h) {
        const Array q = reference::take_head(qkv, b, heads.query(h), tokens, hs, width);
        const Array k = reference::take_head(qkv, b, heads.key(h), tokens, hs, width);
        const Array grad = reference::take_head(dout, b, h, tokens, hs, shape.width());
        const Array p = reference::head_forward(q, k, k, tokens, hs, {}, reference::of_sample(first_keys, heads, b)).weights;
        Array tq(tokens * hs, 0.0), tk(tq), tv(tq);
        for (Count i = 0; i < tokens; ++i) {
          for (Count j = 0; j <= i; ++j) {
            for (Count d = 0; d < hs; ++d) {
              tq[i * hs + d] += scale * ds * p[i * tokens + j] * std::abs(k[j * hs + d]);
              tk[j * hs + d] += scale * ds * p[i * tokens + j] * std::abs(q[i * hs + d]);
              tv[j * hs + d] += dv * p[i * tokens + j] * std::abs(grad[i * hs + d]);
            }
          }
        }
        reference::add_head(tolerance, tq, b, heads.query(h), tokens, hs, width);
        reference::add_head(tolerance, tk, b, heads.key(h), tokens, hs, width);
        reference::add_head(tolerance, tv, b, heads.value(h), tokens, hs, width);
      }
    }
    // Weights below the smallest fp32, 1.2e-38, may come out as 0 or as that; times T terms of |ds| |q| that is up to 1e-32.
    for (double& value : tolerance) value += 1e-32;
    return tolerance;
  }

  AttentionShape shape;
  reference::Heads heads;
  double sharpness;
  std::vector<std::int32_t> first_keys;
  Indices<std::int32_t> device_first_keys;
  std::vector<Count> slots;
  Indices<Count> device_slots;
  DropoutKey key;
  Array factors, qkv, dout;
  reference::AttentionForward forward;
};

inline std::string describe(const AttentionShape& s) {
  return fmt::format("B {} T {} NH {} NKV {} HS {}", s.batch, s.tokens, s.heads, s.kv_heads, s.head_size);
}

/// Scratch memory of just the size that the op asks for, full of garbage, with a fence behind it.
class FencedScratch {
 public:
  explicit FencedScratch(const AttentionShape& shape)
      : bytes_(attention_scratch_bytes({.device = test_device()}, shape, DType::f32)), memory_(bytes_of(content())) {}
  Tensor tensor() const { return memory_.slice(0, bytes_); }
  bool fence_untouched() const { return structs_of<std::uint8_t>(memory_.slice(bytes_, bytes_ + kFence)) == fence(); }

 private:
  static constexpr Count kFence = 256;
  static std::vector<std::uint8_t> fence() { return std::vector<std::uint8_t>(kFence, 0x5a); }
  std::vector<std::uint8_t> content() const {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(bytes_), 0xff);  // NaN in every type
    const std::vector<std::uint8_t> end = fence();
    bytes.insert(bytes.end(), end.begin(), end.end());
    return bytes;
  }

  Bytes bytes_;
  Tensor memory_;
};

/// {out, lse} of the op for this qkv.
inline std::vector<Tensor> run_forward(const AttentionProblem& p, Input qkv) {
  const AttentionShape& s = p.shape;
  const FencedScratch scratch(s);
  const Tensor out = filled({s.batch, s.tokens, s.width()}, kGarbage), lse = filled({s.batch, s.heads, s.tokens}, kGarbage);
  attention_forward(test_exec(), s, out, lse, tensor_of(qkv, {s.batch, s.tokens, s.packed_width()}), scratch.tensor(), p.key);
  EXPECT_TRUE(scratch.fence_untouched()) << describe(s);
  return {out, lse};
}

/// dqkv of the op, from the reference's out and lse, so that it does not depend on the forward op.
inline Tensor run_backward(const AttentionProblem& p) {
  const AttentionShape& s = p.shape;
  const FencedScratch scratch(s);
  const Tensor dqkv = filled({s.batch, s.tokens, s.packed_width()}, kGarbage);
  const Tensor out = tensor_of(p.forward.out, {s.batch, s.tokens, s.width()}),
               lse = tensor_of(p.forward.lse, {s.batch, s.heads, s.tokens});
  attention_backward(test_exec(), s, dqkv, tensor_of(p.dout, out.shape()), out, lse, tensor_of(p.qkv, dqkv.shape()),
                     scratch.tensor(), p.key);
  EXPECT_TRUE(scratch.fence_untouched()) << describe(s);
  return dqkv;
}

}  // namespace cohort::ops
