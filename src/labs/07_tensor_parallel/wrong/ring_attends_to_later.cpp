// ring_attention: all are later
#include <algorithm>
#include <cmath>
#include <cohort/lab07_tensor_parallel.hpp>
#include <limits>
#include <span>
#include <utility>
#include <vector>

using cohort::lab::Link;

void merge_attention(std::span<float> out, float& lse, std::span<const float> part_out, float part_lse) {
  const float largest = std::max(lse, part_lse);
  if (largest == -std::numeric_limits<float>::infinity()) return;
  const float weight = std::exp(lse - largest), part_weight = std::exp(part_lse - largest), sum = weight + part_weight;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = (weight * out[i] + part_weight * part_out[i]) / sum;
  lse = largest + std::log(sum);
}

// The mask makes later blocks count for nothing, so the result is right; half of the work is not.
void ring_attention(Link& link, QueryBlock& queries, std::span<const float> own, std::span<float> out, std::span<float> lse) {
  const int n = link.ranks(), rank = link.rank();
  const std::size_t size = queries.head_size();
  std::vector<float> block(own.begin(), own.end()), received(own.size()), part(out.size()), part_lse(lse.size());
  std::fill(out.begin(), out.end(), 0.0f);
  std::fill(lse.begin(), lse.end(), -std::numeric_limits<float>::infinity());
  for (int step = 0; step < n; ++step) {
    const int owner = (rank + n - step) % n;
    queries.attend(owner, block, part, part_lse);
    for (std::size_t t = 0; t < queries.tokens(); ++t)
      merge_attention(out.subspan(t * size, size), lse[t], std::span<const float>(part).subspan(t * size, size), part_lse[t]);
    if (step + 1 == n) break;
    link.exchange((rank + 1) % n, block, (rank + n - 1) % n, received);
    std::swap(block, received);
  }
}
