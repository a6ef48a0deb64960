#include "data/bpe/encoder.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>

#include "base/error.hpp"
#include "data/utf8.hpp"

namespace cohort {
namespace {

constexpr std::size_t kLongestSimple = 100;  // bytes of a piece that is merged by looking at all pairs for each merge
constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::max();

template <class Word>
std::uint64_t load(const char* from) {
  Word word = 0;
  std::memcpy(&word, from, sizeof(Word));
  return word;
}

// Written out, since == of arrays is a call of memcmp.
bool is_same(const std::array<std::uint64_t, 4>& a, const std::array<std::uint64_t, 4>& b) {
  return ((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3])) == 0;
}

std::size_t place_of(const std::array<std::uint64_t, 4>& words, std::size_t size) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15u, kOther = 0xC2B2AE3D27D4EB4Fu;  // odd; golden ratio and a prime
  std::uint64_t hash = (words[0] + size) * kOdd;
  hash = (std::rotl(hash, 32) ^ words[1]) * kOther;
  if (size > 16) hash = (std::rotl(hash, 32) ^ words[2] ^ std::rotl(words[3], 23)) * kOdd;
  constexpr int kBits = std::countr_zero(BpeEncoder::kKnown);
  return static_cast<std::size_t>(hash >> (64 - kBits));  // the uppermost bits are of all bits below
}

}  // namespace

std::size_t BpeEncoder::encode_piece(std::string_view piece, std::span<TokenId> ids) {
  if (piece.size() == 1) {
    ids[0] = vocabulary_.id_of_byte(static_cast<unsigned char>(piece[0]));
    return 1;
  }
  if (piece.size() > sizeof(Known::words)) return merge(piece, ids.data());
  if (known_.empty()) known_.resize(kKnown);
  const std::array<std::uint64_t, 4> words = words_of(piece);
  Known& known = known_[place_of(words, piece.size())];
  if (known.size == piece.size() && is_same(known.words, words)) {
    // All seven, where there is room: a copy of a fixed size takes two instructions.
    const std::size_t copied = ids.size() >= known.ids.size() ? known.ids.size() : known.count;
    std::copy_n(known.ids.begin(), copied, ids.begin());
    return known.count;
  }
  const std::size_t count = merge(piece, ids.data());
  if (count <= known.ids.size()) {
    known = {
        .words = words, .ids = {}, .size = static_cast<std::uint8_t>(piece.size()), .count = static_cast<std::uint8_t>(count)};
    std::copy_n(ids.begin(), count, known.ids.begin());
  }
  return count;
}

// Two to 32 bytes.
std::array<std::uint64_t, 4> BpeEncoder::words_of(std::string_view piece) {
  const char* first = piece.data();
  const std::size_t size = piece.size();
  const char* end = first + size;
  if (size > 16)
    return {load<std::uint64_t>(first), load<std::uint64_t>(first + 8), load<std::uint64_t>(end - 16),
            load<std::uint64_t>(end - 8)};
  if (size >= 8) return {load<std::uint64_t>(first), load<std::uint64_t>(end - 8), 0, 0};
  if (size >= 4) return {load<std::uint32_t>(first), load<std::uint32_t>(end - 4), 0, 0};
  return {load<std::uint16_t>(first), load<std::uint16_t>(end - 2), 0, 0};
}

std::size_t BpeEncoder::merge(std::string_view piece, TokenId* ids) {
  if (vocabulary_.whole_pieces()) {
    if (const TokenId id = vocabulary_.find(piece); id >= 0) {
      *ids = id;
      return 1;
    }
  }
  return piece.size() <= kLongestSimple ? merge_short(piece, kNever, ids) : merge_long(piece, ids);
}

std::vector<TokenId> BpeEncoder::merge_below(std::int32_t limit, std::string_view piece) {
  std::vector<TokenId> ids(piece.size());
  ids.resize(merge_short(piece, limit, ids.data()));
  return ids;
}

std::size_t BpeEncoder::merge_short(std::string_view piece, std::int32_t limit, TokenId* ids) {
  std::size_t count = piece.size();
  for (std::size_t i = 0; i < count; ++i) ids[i] = vocabulary_.id_of_byte(static_cast<unsigned char>(piece[i]));
  const auto merge_at = [&](std::size_t i) {  // of tokens i and i + 1
    const BpeMerge* merge = i + 1 < count ? vocabulary_.merge_of(ids[i], ids[i + 1]) : nullptr;
    return merge == nullptr ? BpeMerge{.rank = kNever} : *merge;
  };
  next_.resize(count);
  for (std::size_t i = 0; i < count; ++i) next_[i] = merge_at(i);
  while (count > 0) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < count; ++i) {
      if (next_[i].rank < next_[best].rank) best = i;
    }
    if (next_[best].rank >= limit) break;
    ids[best] = next_[best].id;
    std::copy(ids + best + 2, ids + count, ids + best + 1);
    std::copy(next_.data() + best + 2, next_.data() + count, next_.data() + best + 1);
    --count;
    next_[best] = merge_at(best);
    if (best > 0) next_[best - 1] = merge_at(best - 1);
  }
  return count;
}

// A list of tokens, and a queue of merges that were possible when they were put into it.
std::size_t BpeEncoder::merge_long(std::string_view piece, TokenId* ids) {
  struct Node {
    TokenId id;
    std::int32_t before, after;  // -1: none
  };
  const auto size = static_cast<std::int32_t>(piece.size());
  std::vector<Node> nodes(piece.size());
  for (std::int32_t i = 0; i < size; ++i) {
    nodes[static_cast<std::size_t>(i)] = {vocabulary_.id_of_byte(static_cast<unsigned char>(piece[static_cast<std::size_t>(i)])),
                                          i - 1, i + 1 < size ? i + 1 : -1};
  }
  const auto node = [&](std::int32_t i) -> Node& { return nodes[static_cast<std::size_t>(i)]; };
  using Candidate = std::tuple<std::int32_t, std::int32_t, TokenId, TokenId>;  // rank, place, and the two that were seen there
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto offer = [&](std::int32_t i) {
    if (i < 0 || node(i).after < 0) return;
    const TokenId a = node(i).id, b = node(node(i).after).id;
    if (const BpeMerge* merge = vocabulary_.merge_of(a, b)) queue.emplace(merge->rank, i, a, b);
  };
  for (std::int32_t i = 0; i < size; ++i) offer(i);
  while (!queue.empty()) {
    const auto [rank, i, a, b] = queue.top();
    queue.pop();
    const std::int32_t next = node(i).after;
    if (node(i).id != a || next < 0 || node(next).id != b) continue;  // one of the two has merged since
    node(i).id = vocabulary_.merge_of(a, b)->id;
    node(i).after = node(next).after;
    if (node(i).after >= 0) node(node(i).after).before = i;
    node(next).id = -1;
    offer(node(i).before);
    offer(i);
  }
  std::size_t count = 0;
  for (std::int32_t i = 0; i >= 0; i = node(i).after) ids[count++] = node(i).id;
  return count;
}

std::vector<BpeVocabulary::Pair> listed_merges(const BpeVocabulary& vocabulary, std::string_view source) {
  if (vocabulary.merges()) return *vocabulary.merges();
  std::vector<BpeVocabulary::Pair> merges;
  BpeEncoder encoder(vocabulary);
  for (TokenId id = 0; id < static_cast<TokenId>(vocabulary.size()); ++id) {
    const std::string& bytes = vocabulary.tokens()[static_cast<std::size_t>(id)];
    if (bytes.size() < 2) continue;
    const std::vector<TokenId> parts = encoder.merge_below(id, bytes);
    if (parts.size() != 2)
      fail(ExitCode::data, "{}: merges make {} tokens of the token {}, '{}', not two", source, parts.size(), id,
           printable(bytes));
    merges.emplace_back(parts[0], parts[1]);
  }
  return merges;
}

}  // namespace cohort
