// Rotary positions (Su et al. 2021, "RoFormer", section 3.4.2), in the "rotate half" form of Llama.
#pragma once

#include <cmath>

#include "ops/reference/attention.hpp"

namespace cohort::ops::reference {

/// The angle by which pair i of a head is turned at position t: t * theta^(-2 i / HS).
inline double rope_angle(Count t, Count i, Count head_size, double theta) {
  return static_cast<double>(t) * std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_size));
}

/// Turns each query and key head of qkv [B, T, (NH + 2 NKV) HS], and no value head: elements i and i + HS/2 of a head are the two
/// coordinates of a point in a plane, (a, b) -> (a cos - b sin, b cos + a sin). The dot product of a turned query and a turned
/// key then depends on how far apart the two tokens are, not on where they stand. direction: +1 forward, -1 backward: the inverse
/// of a rotation is its transpose, which is what the gradient is multiplied by.
inline Array rope(Input qkv, const Heads& s, double theta, int direction) {
  Array result(qkv.begin(), qkv.end());
  const Count half = s.head_size / 2;
  for (Count row = 0; row < s.batch * s.tokens; ++row) {
    for (Count head = 0; head < s.heads + s.kv_heads; ++head) {
      for (Count i = 0; i < half; ++i) {
        const Count first = row * s.packed_width() + head * s.head_size + i;
        const double angle = direction * rope_angle(row % s.tokens, i, s.head_size, theta);
        const double a = qkv[first];
        const double b = qkv[first + half];
        result[first] = a * std::cos(angle) - b * std::sin(angle);
        result[first + half] = b * std::cos(angle) + a * std::sin(angle);
      }
    }
  }
  return result;
}

}  // namespace cohort::ops::reference
