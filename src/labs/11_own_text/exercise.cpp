// Lab 11: the whole workflow on your own text. What each function has to do is in <cohort/lab11_own_text.hpp>.
//
//   cohort lab show 11       the handout        cohort lab check 11      are they right?
//   cohort lab hint 11.1     a hint             cohort lab run 11        train, and draw the text with your sampler
#include <algorithm>
#include <cmath>
#include <cohort/lab11_own_text.hpp>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

using cohort::lab::hash_of;
using cohort::lab::not_written;

// 11.1
BpePair best_pair(std::span<const BpeWord> words) {
  (void)words;
  not_written();
}

// 11.2
void merge_pair(std::vector<int>& tokens, int left, int right, int merged) {
  (void)tokens, (void)left, (void)right, (void)merged;
  not_written();
}

// 11.3
void bpe_encode(std::vector<int>& tokens, std::span<const BpeMerge> merges) {
  (void)tokens, (void)merges;
  not_written();
}

// 11.4
void split_documents(std::span<const std::string_view> documents, double share, std::uint64_t seed, std::span<bool> held_out) {
  (void)documents, (void)share, (void)seed, (void)held_out;
  not_written();
}

// 11.5
void pack_documents(std::span<const std::vector<int>> documents, std::size_t context, PackedRows& rows) {
  (void)documents, (void)context, (void)rows;
  not_written();
}

// 11.6
double bits_per_byte(std::span<const MeasuredBatch> batches) {
  (void)batches;
  not_written();
}

// 11.7
int sample_top_p(std::span<const float> logits, const SamplingRule& rule, double uniform) {
  (void)logits, (void)rule, (void)uniform;
  not_written();
}
