// merge_attention: lse is 0, not -inf
#include <algorithm>
#include <cmath>
#include <cohort/lab07_tensor_parallel.hpp>
#include <limits>
#include <span>

void merge_attention(std::span<float> out, float& lse, std::span<const float> part_out, float part_lse) {
  const float largest = std::max(lse, part_lse);
  if (largest == -std::numeric_limits<float>::infinity()) {  // and the next merge takes exp(0) for the weight of nothing
    lse = 0.0f;
    return;
  }
  const float weight = std::exp(lse - largest), part_weight = std::exp(part_lse - largest), sum = weight + part_weight;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = (weight * out[i] + part_weight * part_out[i]) / sum;
  lse = largest + std::log(sum);
}
