// next_token_loss: that is softmax alone
#include <algorithm>
#include <cmath>
#include <cohort/lab01_transformer.hpp>
#include <span>

double next_token_loss(std::span<const float> logits, std::span<const std::int32_t> tokens, std::span<float> dlogits) {
  const std::size_t classes = logits.size() / tokens.size();
  std::fill(dlogits.begin(), dlogits.end(), 0.0f);
  double total = 0.0;
  double counting = 0.0;
  for (std::size_t t = 0; t + 1 < tokens.size(); ++t) counting += tokens[t + 1] >= 0 ? 1.0 : 0.0;
  if (counting == 0.0) return 0.0;
  for (std::size_t t = 0; t + 1 < tokens.size(); ++t) {
    if (tokens[t + 1] < 0) continue;
    const auto target = static_cast<std::size_t>(tokens[t + 1]);
    double largest = -HUGE_VAL, sum = 0.0;
    for (std::size_t c = 0; c < classes; ++c) largest = std::max<double>(largest, logits[t * classes + c] * 1.0);
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(logits[t * classes + c] - largest);
    total += largest + std::log(sum) - logits[t * classes + target];
    for (std::size_t c = 0; c < classes; ++c)
      dlogits[t * classes + c] =
          static_cast<float>((std::exp(logits[t * classes + c] - largest) / sum - (c == target ? 0.0 : 0.0)) / counting);
  }
  return total / counting;
}
