// merge_attention: -infinity less -infinity is no number
#include <algorithm>
#include <cmath>
#include <cohort/lab07_tensor_parallel.hpp>
#include <span>

void merge_attention(std::span<float> out, float& lse, std::span<const float> part_out, float part_lse) {
  const float largest = std::max(lse, part_lse);
  const float weight = std::exp(lse - largest), part_weight = std::exp(part_lse - largest), sum = weight + part_weight;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = (weight * out[i] + part_weight * part_out[i]) / sum;
  lse = largest + std::log(sum);
}
