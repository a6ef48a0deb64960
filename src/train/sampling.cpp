#include "train/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

namespace cohort {
namespace {

// Tokens from the likeliest on, equals in the order of their ids. They are sorted as far as they are asked for: a draw seldom
// needs more than the first hundreds, and sorting a vocabulary would take longer than a small model's pass.
class Ranking {
 public:
  explicit Ranking(std::span<const float> logits) : logits_(logits), tokens_(logits.size()) {
    std::iota(tokens_.begin(), tokens_.end(), 0);
  }

  std::size_t size() const { return tokens_.size(); }
  std::int32_t operator[](std::size_t place) {
    if (place >= sorted_) sort(std::max<std::size_t>(256, 4 * place));
    return tokens_[place];
  }
  void keep_first(std::size_t count) {
    if (count >= size()) return;
    sort(count);
    tokens_.resize(count);
  }
  /// In no order.
  std::span<const std::int32_t> all() const { return tokens_; }

 private:
  void sort(std::size_t count) {
    const auto from = tokens_.begin() + static_cast<std::ptrdiff_t>(sorted_);
    sorted_ = std::min(count, size());
    std::partial_sort(from, tokens_.begin() + static_cast<std::ptrdiff_t>(sorted_), tokens_.end(),
                      [this](std::int32_t a, std::int32_t b) {
                        const float x = logits_[static_cast<std::size_t>(a)], y = logits_[static_cast<std::size_t>(b)];
                        return x != y ? x > y : a < b;
                      });
  }

  std::span<const float> logits_;
  std::vector<std::int32_t> tokens_;
  std::size_t sorted_ = 0;
};

OwnSampling& own_sampling() {
  static OwnSampling own;
  return own;
}

}  // namespace

void use_own_sampling(OwnSampling own) { own_sampling() = std::move(own); }

bool can_be_drawn_from(std::span<const float> logits) {
  return std::ranges::none_of(logits, [](float logit) { return std::isnan(logit) || (std::isinf(logit) && logit > 0.0f); }) &&
         std::ranges::any_of(logits, [](float logit) { return std::isfinite(logit); });
}

std::int32_t draw_token(std::span<const float> logits, const Sampling& sampling, double uniform) {
  if (own_sampling()) return own_sampling()(logits, sampling, uniform);
  if (sampling.temperature == 0.0) return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
  Ranking ranking(logits);
  if (sampling.top_k > 0) ranking.keep_first(static_cast<std::size_t>(sampling.top_k));
  const double largest = logits[static_cast<std::size_t>(ranking[0])];
  const auto weight = [&](std::int32_t token) {
    return std::exp((static_cast<double>(logits[static_cast<std::size_t>(token)]) - largest) / sampling.temperature);
  };
  double total = 0.0;
  for (const std::int32_t token : ranking.all()) total += weight(token);
  std::size_t kept = ranking.size();
  if (sampling.top_p < 1.0) {
    const double wanted = sampling.top_p * total;
    total = 0.0;
    for (kept = 0; kept < ranking.size() && (kept == 0 || total < wanted); ++kept) total += weight(ranking[kept]);
  }
  double left = uniform * total;
  std::int32_t token = ranking[0];
  for (std::size_t place = 0; place < kept; ++place) {
    const double own = weight(ranking[place]);
    if (own == 0.0) break;  // as are all behind it; the sum was rounded
    token = ranking[place];
    left -= own;
    if (left < 0.0) break;
  }
  return token;
}

}  // namespace cohort
