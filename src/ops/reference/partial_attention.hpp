// Attention of a run of queries to a run of keys elsewhere in the sequence, one head at a time, and what makes it the whole
// again: merging (Milakov & Gimelshein 2018, "Online normalizer calculation for softmax"; Dao et al. 2022, "FlashAttention",
// section 3.1) and the gradient of one block (Dao 2023, "FlashAttention-2", section 2.3).
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/reference/attention.hpp"

namespace cohort::ops::reference {

/// Query i of the block is token first_query + i of the sequence, key j is token first_key + j; i sees j if that is no later
/// token and none of an earlier document.
struct Block {
  Count queries, keys, first_query, first_key, head_size;
  FirstKeys first_keys = {};  // [T], of the sequence

  bool sees(Count i, Count j) const {
    const Count query = first_query + i, key = first_key + j;
    return query >= key && key >= reference::first_key(first_keys, query);
  }
};

struct BlockForward {
  Array out;  // [queries, HS]
  Array lse;  // [queries]
};

/// out = (softmax(scores) * factors) v over the keys of the block that are visible; 0, and lse = -infinity, where none is.
/// q [queries, HS]; k, v [keys, HS]; factors [queries, keys] are those of dropout, or empty for none.
inline BlockForward block_forward(Input q, Input k, Input v, const Block& block, Input factors = {}) {
  const Count hs = block.head_size;
  BlockForward result{Array(block.queries * hs, 0.0), Array(block.queries, -std::numeric_limits<double>::infinity())};
  for (Count i = 0; i < block.queries; ++i) {
    Array scores(block.keys, -std::numeric_limits<double>::infinity());
    for (Count j = 0; j < block.keys; ++j) {
      if (!block.sees(i, j)) continue;
      double score = 0.0;
      for (Count d = 0; d < hs; ++d) score += q[i * hs + d] * k[j * hs + d];
      scores[j] = score / std::sqrt(static_cast<double>(hs));
    }
    const double largest = *std::max_element(scores.begin(), scores.end());
    if (std::isinf(largest)) continue;
    double denominator = 0.0;
    for (const double score : scores) denominator += std::exp(score - largest);
    result.lse[i] = largest + std::log(denominator);
    for (std::size_t j = 0; j < scores.size(); ++j) {
      const double factor = factors.empty() ? 1.0 : factors[i * block.keys + j];
      for (Count d = 0; d < hs; ++d) result.out[i * hs + d] += std::exp(scores[j] - result.lse[i]) * factor * v[j * hs + d];
    }
  }
  return result;
}

/// The result over the keys of a and of b: exp(lse) is the sum of the denominators, and out their average weighted by them.
inline BlockForward merge(const BlockForward& a, const BlockForward& b) {
  BlockForward merged = a;
  const std::size_t hs = a.out.size() / a.lse.size();
  for (std::size_t i = 0; i < a.lse.size(); ++i) {
    const double largest = std::max(a.lse[i], b.lse[i]);
    if (std::isinf(largest)) continue;  // nothing and nothing
    merged.lse[i] = largest + std::log(std::exp(a.lse[i] - largest) + std::exp(b.lse[i] - largest));
    const double weight_a = std::exp(a.lse[i] - merged.lse[i]), weight_b = std::exp(b.lse[i] - merged.lse[i]);
    for (std::size_t d = i * hs; d < (i + 1) * hs; ++d) merged.out[d] = weight_a * a.out[d] + weight_b * b.out[d];
  }
  return merged;
}

struct BlockBackward {
  Array dq;      // [queries, HS]
  Array dk, dv;  // [keys, HS]
};

/// What the block adds to the gradients, where `whole` is the result over all keys and dout the gradient of its out. With m the
/// factors of dropout, p_ij = exp(q_i . k_j / sqrt(HS) - lse_i) and delta_i = dout_i . out_i:
///   ds_ij = p_ij (m_ij dout_i . v_j - delta_i),   dq_i += sum_j ds_ij k_j / sqrt(HS),
///   dk_j += sum_i ds_ij q_i / sqrt(HS),           dv_j += sum_i m_ij p_ij dout_i
inline BlockBackward block_backward(Input dout, const BlockForward& whole, Input q, Input k, Input v, const Block& block,
                                    Input factors = {}) {
  const Count hs = block.head_size;
  const double scale = 1.0 / std::sqrt(static_cast<double>(hs));
  BlockBackward result{Array(block.queries * hs, 0.0), Array(block.keys * hs, 0.0), Array(block.keys * hs, 0.0)};
  for (Count i = 0; i < block.queries; ++i) {
    double delta = 0.0;
    for (Count d = 0; d < hs; ++d) delta += dout[i * hs + d] * whole.out[i * hs + d];
    for (Count j = 0; j < block.keys; ++j) {
      if (!block.sees(i, j)) continue;
      double score = 0.0, dp = 0.0;
      for (Count d = 0; d < hs; ++d) {
        score += scale * q[i * hs + d] * k[j * hs + d];
        dp += dout[i * hs + d] * v[j * hs + d];
      }
      const double p = std::exp(score - whole.lse[i]);
      const double factor = factors.empty() ? 1.0 : factors[i * block.keys + j];
      const double ds = p * (factor * dp - delta);
      for (Count d = 0; d < hs; ++d) {
        result.dq[i * hs + d] += scale * ds * k[j * hs + d];
        result.dk[j * hs + d] += scale * ds * q[i * hs + d];
        result.dv[j * hs + d] += factor * p * dout[i * hs + d];
      }
    }
  }
  return result;
}

}  // namespace cohort::ops::reference
