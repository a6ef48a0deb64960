// Causal self-attention (Vaswani et al. 2017, "Attention Is All You Need", section 3.2), one head at a time with the whole T x T
// matrix of weights in memory, and grouped-query attention (Ainslie et al. 2023, "GQA") over a packed row of heads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "ops/reference/array.hpp"

namespace cohort::ops::reference {

/// Of each token of a sample [T], or of samples [B, T], the position of the first token of its document; empty: a sample is one
/// document.
using FirstKeys = std::span<const std::int32_t>;

/// The first token that token i of a sample sees.
inline Count first_key(FirstKeys first_keys, Count i) { return first_keys.empty() ? 0 : first_keys[static_cast<std::size_t>(i)]; }

struct HeadForward {
  Array out;      // [T, HS]
  Array lse;      // [T], logarithm of the softmax denominator of each row
  Array weights;  // [T, T], softmax weights before dropout; 0 of what is not seen
};

/// out = (softmax(scores) * factors) v,  scores_ij = q_i . k_j / sqrt(HS) for first_i <= j <= i: a token sees itself and those
/// before it in its document. q, k, v [T, HS]; factors [T, T] are those of dropout, or empty for none.
inline HeadForward head_forward(Input q, Input k, Input v, Count tokens, Count head_size, Input factors = {},
                                FirstKeys first_keys = {}) {
  HeadForward result{Array(tokens * head_size, 0.0), Array(tokens), Array(tokens * tokens, 0.0)};
  for (Count i = 0; i < tokens; ++i) {
    const Count first = first_key(first_keys, i);
    Array scores(i + 1 - first, 0.0);  // of keys from `first` on
    for (Count j = first; j <= i; ++j) {
      for (Count d = 0; d < head_size; ++d) scores[j - first] += q[i * head_size + d] * k[j * head_size + d];
      scores[j - first] /= std::sqrt(static_cast<double>(head_size));
    }
    // softmax does not change when a constant is taken off all scores; with the largest taken off, exp cannot overflow.
    const double largest = *std::max_element(scores.begin(), scores.end());
    double denominator = 0.0;
    for (const double score : scores) denominator += std::exp(score - largest);
    result.lse[i] = largest + std::log(denominator);
    for (Count j = first; j <= i; ++j) {
      const double weight = std::exp(scores[j - first] - largest) / denominator;
      const double factor = factors.empty() ? 1.0 : factors[i * tokens + j];
      result.weights[i * tokens + j] = weight;
      for (Count d = 0; d < head_size; ++d) result.out[i * head_size + d] += weight * factor * v[j * head_size + d];
    }
  }
  return result;
}

struct HeadBackward {
  Array dq, dk, dv;  // each [T, HS]
};

/// With p the softmax weights and m the factors of dropout (Dao 2023, "FlashAttention-2", section 2.3, where m = 1):
///   dv_j = sum_i m_ij p_ij dout_i          dp_ij = m_ij (dout_i . v_j)
///   ds_ij = p_ij (dp_ij - sum_l p_il dp_il)      the Jacobian of softmax
///   dq_i = sum_j ds_ij k_j / sqrt(HS)      dk_j = sum_i ds_ij q_i / sqrt(HS)
inline HeadBackward head_backward(Input dout, Input q, Input k, Input v, Count tokens, Count head_size, Input factors = {},
                                  FirstKeys first_keys = {}) {
  const Array p = head_forward(q, k, v, tokens, head_size, {}, first_keys).weights;
  const double scale = 1.0 / std::sqrt(static_cast<double>(head_size));
  const Array zeros(tokens * head_size, 0.0);
  HeadBackward result{zeros, zeros, zeros};
  for (Count i = 0; i < tokens; ++i) {
    const Count first = first_key(first_keys, i);
    Array dp(i + 1, 0.0);
    double mean_dp = 0.0;  // sum_l p_il dp_il
    for (Count j = first; j <= i; ++j) {
      const double factor = factors.empty() ? 1.0 : factors[i * tokens + j];
      for (Count d = 0; d < head_size; ++d) {
        dp[j] += factor * dout[i * head_size + d] * v[j * head_size + d];
        result.dv[j * head_size + d] += factor * p[i * tokens + j] * dout[i * head_size + d];
      }
      mean_dp += p[i * tokens + j] * dp[j];
    }
    for (Count j = first; j <= i; ++j) {
      const double ds = p[i * tokens + j] * (dp[j] - mean_dp);
      for (Count d = 0; d < head_size; ++d) {
        result.dq[i * head_size + d] += scale * ds * k[j * head_size + d];
        result.dk[j * head_size + d] += scale * ds * q[i * head_size + d];
      }
    }
  }
  return result;
}

/// Sizes of a packed activation qkv [B, T, (NH + 2 NKV) HS]: NH query heads, then NKV key heads, then NKV value heads.
struct Heads {
  Count batch, tokens, heads, kv_heads, head_size;

  Count packed_width() const { return (heads + 2 * kv_heads) * head_size; }
  /// The heads of the packed row that hold the query, key and value of query head h: NH / NKV query heads share a key head.
  Count query(Count h) const { return h; }
  Count key(Count h) const { return heads + h / (heads / kv_heads); }
  Count value(Count h) const { return heads + kv_heads + h / (heads / kv_heads); }
};

/// Head `head` of sample b as [T, HS], out of an activation whose rows are `width` long.
inline Array take_head(Input packed, Count b, Count head, Count tokens, Count head_size, Count width) {
  Array result;
  for (Count t = 0; t < tokens; ++t) {
    for (Count d = 0; d < head_size; ++d) result.push_back(packed[(b * tokens + t) * width + head * head_size + d]);
  }
  return result;
}

/// The reverse: adds values [T, HS] to head `head` of sample b.
inline void add_head(Array& packed, Input values, Count b, Count head, Count tokens, Count head_size, Count width) {
  for (Count t = 0; t < tokens; ++t) {
    for (Count d = 0; d < head_size; ++d) packed[(b * tokens + t) * width + head * head_size + d] += values[t * head_size + d];
  }
}

/// The part of factors [B, NH, T, T] (or of nothing) that belongs to head h of sample b.
inline Input head_factors(Input factors, const Heads& s, Count b, Count h) {
  const Count square = s.tokens * s.tokens;
  return factors.empty() ? factors : factors.subspan((b * s.heads + h) * square, square);
}

/// The part of first_keys [B, T] (or of nothing) that belongs to sample b.
inline FirstKeys of_sample(FirstKeys first_keys, const Heads& s, Count b) {
  return first_keys.empty() ? first_keys : first_keys.subspan(b * s.tokens, s.tokens);
}

struct AttentionForward {
  Array out;  // [B, T, NH HS]
  Array lse;  // [B, NH, T]
};

inline AttentionForward attention_forward(Input qkv, const Heads& s, Input factors = {}, FirstKeys first_keys = {}) {
  const Count width = s.packed_width();
  const Count out_width = s.heads * s.head_size;
  AttentionForward result{Array(s.batch * s.tokens * out_width, 0.0), {}};
  for (Count b = 0; b < s.batch; ++b) {
    for (Count h = 0; h < s.heads; ++h) {
      const Array q = take_head(qkv, b, s.query(h), s.tokens, s.head_size, width);
      const Array k = take_head(qkv, b, s.key(h), s.tokens, s.head_size, width);
      const Array v = take_head(qkv, b, s.value(h), s.tokens, s.head_size, width);
      const HeadForward head =
          head_forward(q, k, v, s.tokens, s.head_size, head_factors(factors, s, b, h), of_sample(first_keys, s, b));
      add_head(result.out, head.out, b, h, s.tokens, s.head_size, out_width);
      result.lse.insert(result.lse.end(), head.lse.begin(), head.lse.end());
    }
  }
  return result;
}

/// dqkv [B, T, (NH + 2 NKV) HS]. A key or value head gets the sum over the query heads that read it.
inline Array attention_backward(Input dout, Input qkv, const Heads& s, Input factors = {}, FirstKeys first_keys = {}) {
  const Count width = s.packed_width();
  Array dqkv(s.batch * s.tokens * width, 0.0);
  for (Count b = 0; b < s.batch; ++b) {
    for (Count h = 0; h < s.heads; ++h) {
      const Array q = take_head(qkv, b, s.query(h), s.tokens, s.head_size, width);
      const Array k = take_head(qkv, b, s.key(h), s.tokens, s.head_size, width);
      const Array v = take_head(qkv, b, s.value(h), s.tokens, s.head_size, width);
      const Array dhead = take_head(dout, b, h, s.tokens, s.head_size, s.heads * s.head_size);
      const HeadBackward head =
          head_backward(dhead, q, k, v, s.tokens, s.head_size, head_factors(factors, s, b, h), of_sample(first_keys, s, b));
      add_head(dqkv, head.dq, b, s.query(h), s.tokens, s.head_size, width);
      add_head(dqkv, head.dk, b, s.key(h), s.tokens, s.head_size, width);
      add_head(dqkv, head.dv, b, s.value(h), s.tokens, s.head_size, width);
    }
  }
  return dqkv;
}

}  // namespace cohort::ops::reference
