// Lab 11: the whole workflow on your own text. Tokens are whole numbers; the bytes of a text are the tokens 0 to 255.
#pragma once

#include <cohort/lab.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace cohort::lab {

/// 64 bits that look random, but are always the same for the same text and seed, on any machine: FNV-1a, and two steps that mix,
/// so that all bits are as good as each other.
inline std::uint64_t hash_of(std::string_view text, std::uint64_t seed) {
  std::uint64_t hash = 0xCBF29CE484222325u ^ (seed * 0x9E3779B97F4A7C15u);
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3u;
  hash = (hash ^ (hash >> 32)) * 0xD6E8FEB86659FD93u;
  hash = (hash ^ (hash >> 29)) * 0xBF58476D1CE4E5B9u;
  return hash ^ (hash >> 32);
}

}  // namespace cohort::lab

extern "C" {

/// A word of a text, or another piece that no token crosses: as tokens, and how often the text has it.
struct BpeWord {
  std::vector<int> tokens;
  long count;
};

/// Two tokens side by side, and how often.
struct BpePair {
  int left, right;
  long count;
};

/// 11.1: the pair that occurs most often within words, each word counted as often as the text has it, each place in it once: in
/// a a a the pair (a, a) is there twice. Of several pairs that are as frequent the one with the smallest left token, of these the
/// one with the smallest right token: whoever trains on these counts gets this tokenizer. Without a pair: {-1, -1, 0}.
BpePair best_pair(std::span<const BpeWord> words);

/// 11.2: replaces `left` `right`, wherever they stand side by side, by `merged`, from left to right: a a a becomes X a.
void merge_pair(std::vector<int>& tokens, int left, int right, int merged);

/// A merge that training learned.
struct BpeMerge {
  int left, right, merged;
};

/// 11.3: the tokens of a word, at first its bytes, become those that training would have made of it: of all merges that are
/// possible the one that was learned first, of the places of this one the leftmost; and again, until none is possible. `merges`
/// are in the order in which they were learned.
void bpe_encode(std::vector<int>& tokens, std::span<const BpeMerge> merges);

/// 11.4: held_out[i] says whether document i is for validation. About a share of the documents (0 to 1) is. Documents with
/// the same text are on the same side, and the side of a document depends on its text and the seed alone: more documents, or
/// another order, change nothing; a larger share keeps what a smaller one holds out. Use lab::hash_of().
void split_documents(std::span<const std::string_view> documents, double share, std::uint64_t seed, std::span<bool> held_out);

/// Rows of `context` tokens, one row after the other; the three have as many elements.
struct PackedRows {
  std::vector<int> tokens;     // what the model reads
  std::vector<int> targets;    // the token that follows in the same document, also if it stands in the next row; else -1
  std::vector<int> positions;  // 0 at the beginning of each document and of each row, then 1, 2, ...
};

/// 11.5: all documents one behind the other, cut into rows: no token is lost, none is there twice. A token that ends its document
/// has the target -1. The last row is filled up with token 0, target -1 and position 0. Documents may be empty. No documents: no
/// row.
void pack_documents(std::span<const std::vector<int>> documents, std::size_t context, PackedRows& rows);

/// The mean loss of a batch of validation, and what it is over.
struct MeasuredBatch {
  double nats_per_token;  // mean of -ln p over its tokens
  long tokens;
  long bytes;  // that the tokens stand for
};

/// 11.6: bits for each byte of the text over all batches, which differ in size.
double bits_per_byte(std::span<const MeasuredBatch> batches);

struct SamplingRule {
  double temperature;  // 0: the likeliest token
  int top_k;           // only the k likeliest tokens; 0: all
  double top_p;        // of these only the fewest likeliest that together have this probability or more; 1: all
};

/// 11.7: draws a token from softmax(logits / temperature). First top_k cuts, then top_p, on the probabilities of the tokens that
/// top_k left; what is left is normalized again. The tokens share the interval from 0 to 1 by their probabilities, the likeliest
/// first, equals by their numbers; the one in whose part `uniform`, in [0, 1), lies is drawn. A logit of -infinity is never
/// drawn. Throws std::invalid_argument if a logit is NaN or +infinity, or none is finite.
int sample_top_p(std::span<const float> logits, const SamplingRule& rule, double uniform);
}
