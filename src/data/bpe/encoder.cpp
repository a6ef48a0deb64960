#include "data/bpe/encoder.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>

#include "base/error.hpp"
#include "data/utf8.hpp"

namespace cohort {
namespace {

constexpr std::size_t kKnown = 1 << 16;      // pieces
constexpr std::size_t kLongestSimple = 100;  // bytes of a piece that is merged by looking at all pairs for each merge
constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::max();

}  // namespace

BpeEncoder::BpeEncoder(const BpeVocabulary& vocabulary) : vocabulary_(vocabulary), known_(kKnown) {}

void BpeEncoder::encode_piece(std::string_view piece, std::vector<TokenId>& ids) {
  if (piece.size() == 1) {
    ids.push_back(vocabulary_.id_of_byte(static_cast<unsigned char>(piece[0])));
    return;
  }
  Known& known = place_of(piece);
  if (piece.size() > known.bytes.size()) {
    merge(piece, ids);
  } else if (known.size == piece.size() && std::memcmp(known.bytes.data(), piece.data(), piece.size()) == 0) {
    ids.insert(ids.end(), known.ids.begin(), known.ids.begin() + known.count);
  } else {
    const std::size_t first = ids.size();
    merge(piece, ids);
    const std::size_t count = ids.size() - first;
    if (count > known.ids.size()) return;
    known.size = static_cast<std::uint8_t>(piece.size());
    known.count = static_cast<std::uint8_t>(count);
    std::copy(piece.begin(), piece.end(), known.bytes.begin());
    std::copy(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end(), known.ids.begin());
  }
}

BpeEncoder::Known& BpeEncoder::place_of(std::string_view piece) { return known_[std::hash<std::string_view>()(piece) % kKnown]; }

void BpeEncoder::merge(std::string_view piece, std::vector<TokenId>& ids) {
  if (vocabulary_.whole_pieces()) {
    if (const TokenId id = vocabulary_.find(piece); id >= 0) {
      ids.push_back(id);
      return;
    }
  }
  if (piece.size() <= kLongestSimple) {
    merge_short(piece, kNever, ids);
  } else {
    merge_long(piece, ids);
  }
}

std::vector<TokenId> BpeEncoder::merge_below(std::int32_t limit, std::string_view piece) {
  std::vector<TokenId> ids;
  merge_short(piece, limit, ids);
  return ids;
}

void BpeEncoder::merge_short(std::string_view piece, std::int32_t limit, std::vector<TokenId>& ids) {
  const std::size_t first = ids.size();
  for (const char c : piece) ids.push_back(vocabulary_.id_of_byte(static_cast<unsigned char>(c)));
  const auto rank_at = [&](std::size_t i) {  // of tokens i and i + 1
    if (i + 1 >= ids.size()) return kNever;
    const BpeMerge* merge = vocabulary_.merge_of(ids[i], ids[i + 1]);
    return merge == nullptr ? kNever : merge->rank;
  };
  ranks_.clear();
  for (std::size_t i = first; i < ids.size(); ++i) ranks_.push_back(rank_at(i));
  while (true) {
    const auto best = std::min_element(ranks_.begin(), ranks_.end());
    if (best == ranks_.end() || *best >= limit) return;
    const std::size_t place = static_cast<std::size_t>(best - ranks_.begin()), i = first + place;
    ids[i] = vocabulary_.merge_of(ids[i], ids[i + 1])->id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    ranks_.erase(best + 1);
    ranks_[place] = rank_at(i);
    if (place > 0) ranks_[place - 1] = rank_at(i - 1);
  }
}

// A list of tokens, and a queue of merges that were possible when they were put into it.
void BpeEncoder::merge_long(std::string_view piece, std::vector<TokenId>& ids) {
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
  for (std::int32_t i = 0; i >= 0; i = node(i).after) ids.push_back(node(i).id);
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
