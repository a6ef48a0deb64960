// sample_top_p: a logit is NaN, but token
#include <algorithm>
#include <cmath>
#include <cohort/lab11_own_text.hpp>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

// NaN is not looked for.
int sample_top_p(std::span<const float> logits, const SamplingRule& rule, double uniform) {
  const auto logit_of = [&](int token) { return static_cast<double>(logits[static_cast<std::size_t>(token)]); };
  std::vector<int> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  std::stable_sort(tokens.begin(), tokens.end(), [&](int a, int b) { return logit_of(a) > logit_of(b); });
  if (rule.temperature == 0.0) return tokens.front();
  if (rule.top_k > 0 && static_cast<std::size_t>(rule.top_k) < tokens.size()) tokens.resize(static_cast<std::size_t>(rule.top_k));
  const double top = logit_of(tokens.front());
  const auto weight = [&](int token, double temperature) { return std::exp((logit_of(token) - top) / temperature); };
  double all = 0.0, whole = 0.0, sum = 0.0;
  for (const int token : tokens) all += weight(token, rule.temperature), whole += weight(token, rule.temperature);
  std::size_t kept = 0;
  for (; kept < tokens.size() && (kept == 0 || rule.top_p >= 1.0 || sum < rule.top_p * all); ++kept)
    sum += weight(tokens[kept], rule.temperature);
  tokens.resize(kept);
  sum = 0.0;
  for (const int token : tokens) sum += weight(token, rule.temperature);
  (void)whole;
  double left = uniform * sum;
  for (const int token : tokens) {
    left -= weight(token, rule.temperature);
    if (left < 0.0) return token;
  }
  return tokens.back();
}
