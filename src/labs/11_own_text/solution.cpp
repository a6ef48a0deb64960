// Lab 11: one way to write it.
#include <algorithm>
#include <cmath>
#include <cohort/lab11_own_text.hpp>
#include <cstdint>
#include <map>
#include <numbers>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

using cohort::lab::hash_of;

// 11.1: the map is sorted by (left, right), so the first of equals is the smallest.
BpePair best_pair(std::span<const BpeWord> words) {
  std::map<std::pair<int, int>, long> counts;
  for (const BpeWord& word : words) {
    for (std::size_t i = 1; i < word.tokens.size(); ++i) counts[{word.tokens[i - 1], word.tokens[i]}] += word.count;
  }
  BpePair best{-1, -1, 0};
  for (const auto& [pair, count] : counts) {
    if (count > best.count) best = {pair.first, pair.second, count};
  }
  return best;
}

// 11.2
void merge_pair(std::vector<int>& tokens, int left, int right, int merged) {
  std::size_t to = 0;
  for (std::size_t from = 0; from < tokens.size(); ++from) {
    const bool here = from + 1 < tokens.size() && tokens[from] == left && tokens[from + 1] == right;
    tokens[to++] = here ? merged : tokens[from];
    if (here) ++from;
  }
  tokens.resize(to);
}

// 11.3
void bpe_encode(std::vector<int>& tokens, std::span<const BpeMerge> merges) {
  std::map<std::pair<int, int>, std::size_t> ranks;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) ranks.emplace(std::pair{merges[rank].left, merges[rank].right}, rank);
  for (;;) {
    std::size_t best = merges.size(), place = 0;
    for (std::size_t i = 1; i < tokens.size(); ++i) {
      const auto found = ranks.find({tokens[i - 1], tokens[i]});
      if (found == ranks.end() || found->second >= best) continue;
      best = found->second;
      place = i;
    }
    if (best == merges.size()) return;
    tokens[place - 1] = merges[best].merged;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(place));
  }
}

// 11.4: the hash as a number in [0, 1).
void split_documents(std::span<const std::string_view> documents, double share, std::uint64_t seed, std::span<bool> held_out) {
  for (std::size_t i = 0; i < documents.size(); ++i)
    held_out[i] = static_cast<double>(hash_of(documents[i], seed) >> 11) * 0x1.0p-53 < share;
}

// 11.5
void pack_documents(std::span<const std::vector<int>> documents, std::size_t context, PackedRows& rows) {
  rows = {};
  int position = 0;
  const auto put = [&](int token, int target) {
    if (rows.tokens.size() % context == 0) position = 0;
    rows.tokens.push_back(token);
    rows.targets.push_back(target);
    rows.positions.push_back(position++);
  };
  for (const std::vector<int>& document : documents) {
    position = 0;
    for (std::size_t i = 0; i < document.size(); ++i) put(document[i], i + 1 < document.size() ? document[i + 1] : -1);
  }
  while (rows.tokens.size() % context != 0) {
    position = 0;
    put(0, -1);
  }
}

// 11.6
double bits_per_byte(std::span<const MeasuredBatch> batches) {
  double nats = 0.0, bytes = 0.0;
  for (const MeasuredBatch& batch : batches) {
    nats += batch.nats_per_token * static_cast<double>(batch.tokens);
    bytes += static_cast<double>(batch.bytes);
  }
  return nats / std::numbers::ln2 / bytes;
}

// 11.7
int sample_top_p(std::span<const float> logits, const SamplingRule& rule, double uniform) {
  bool any = false;
  for (const float logit : logits) {
    if (std::isnan(logit) || (std::isinf(logit) && logit > 0.0f)) throw std::invalid_argument("a logit is no number");
    any = any || std::isfinite(logit);
  }
  if (!any) throw std::invalid_argument("no logit is finite");
  const auto logit_of = [&](int token) { return static_cast<double>(logits[static_cast<std::size_t>(token)]); };
  std::vector<int> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  std::stable_sort(tokens.begin(), tokens.end(), [&](int a, int b) { return logit_of(a) > logit_of(b); });
  if (rule.temperature == 0.0) return tokens.front();
  if (rule.top_k > 0 && static_cast<std::size_t>(rule.top_k) < tokens.size()) tokens.resize(static_cast<std::size_t>(rule.top_k));
  std::vector<double> weights;
  for (const int token : tokens) weights.push_back(std::exp((logit_of(token) - logit_of(tokens.front())) / rule.temperature));
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::size_t kept = 0;
  double sum = 0.0;
  while (kept < weights.size() && weights[kept] > 0.0 && (kept == 0 || rule.top_p >= 1.0 || sum < rule.top_p * all))
    sum += weights[kept++];
  double left = uniform * sum;
  for (std::size_t i = 0; i < kept; ++i) {
    left -= weights[i];
    if (left < 0.0) return tokens[i];
  }
  return tokens[kept - 1];  // the sum was rounded
}
