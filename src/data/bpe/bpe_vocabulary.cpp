#include "data/bpe/bpe_vocabulary.hpp"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/error.hpp"
#include "data/utf8.hpp"

namespace cohort {
namespace {

constexpr std::uint64_t kNoPair = ~std::uint64_t{0};

std::uint64_t key_of(TokenId a, TokenId b) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(a)) << 32 | static_cast<std::uint32_t>(b);
}

std::size_t hash_of(std::string_view bytes) { return std::hash<std::string_view>{}(bytes); }

// The half of a hash that its place is not made of, in tables of up to 2^32.
std::uint32_t tag_of(std::size_t hash) { return static_cast<std::uint32_t>(hash >> 32); }

std::size_t place_of(std::uint64_t key) { return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15u) >> 20); }

}  // namespace

BpeVocabulary::BpeVocabulary(std::vector<std::string> tokens, std::optional<std::vector<Pair>> merges,
                             std::vector<SpecialToken> special, bool whole_pieces, std::string_view source)
    : tokens_(std::move(tokens)),
      merges_(std::move(merges)),
      special_(std::move(special)),
      whole_pieces_(whole_pieces || !merges_) {
  check_special(source);
  index_tokens(source);
  if (merges_) {
    index_merges(source);
  } else {
    derive_merges(source);
  }
}

void BpeVocabulary::check_special(std::string_view source) {
  for (const SpecialToken& token : special_) {
    if (token.text.empty() || token.id < 0) fail(ExitCode::data, "{}: a special token without text or id", source);
    if (token.id >= kMostTokens)
      fail(ExitCode::data, "{}: the special token '{}' has the id {}; ids are below {}", source, printable(token.text), token.id,
           kMostTokens);
    if (!is_utf8(token.text)) fail(ExitCode::data, "{}: the special token '{}' is not UTF-8", source, printable(token.text));
    if (std::count_if(special_.begin(), special_.end(), [&](const SpecialToken& other) { return other.text == token.text; }) > 1)
      fail(ExitCode::data, "{}: the special token '{}' is there twice", source, token.text);
    if (static_cast<std::size_t>(token.id) >= tokens_.size()) tokens_.resize(static_cast<std::size_t>(token.id) + 1);
    if (!tokens_[static_cast<std::size_t>(token.id)].empty()) {
      fail(ExitCode::data, "{}: the special token '{}' has the id {} of the token '{}'", source, token.text, token.id,
           printable(tokens_[static_cast<std::size_t>(token.id)]));
    }
  }
}

void BpeVocabulary::index_tokens(std::string_view source) {
  const std::size_t room = std::bit_ceil(2 * tokens_.size() + 2);
  token_slots_.assign(room, {.tag = 0, .id = -1});
  token_mask_ = room - 1;
  for (std::size_t id = 0; id < tokens_.size(); ++id) {
    if (tokens_[id].empty()) continue;
    const std::size_t hash = hash_of(tokens_[id]);
    TokenSlot& slot = token_slots_[token_place(hash, tokens_[id])];
    if (slot.id >= 0)
      fail(ExitCode::data, "{}: the ids {} and {} are both of the token '{}'", source, slot.id, id, printable(tokens_[id]));
    slot = {.tag = tag_of(hash), .id = static_cast<TokenId>(id)};
  }
  for (int byte = 0; byte < 256; ++byte) {
    bytes_[static_cast<std::size_t>(byte)] = find(std::string(1, static_cast<char>(byte)));
    if (bytes_[static_cast<std::size_t>(byte)] < 0) {
      fail(ExitCode::data,
           "{}: the byte 0x{:02x} is no token: not every text could be encoded (a vocabulary that is not byte-level?)", source,
           byte);
    }
  }
}

void BpeVocabulary::index_merges(std::string_view source) {
  make_room(merges_->size());
  for (std::size_t rank = 0; rank < merges_->size(); ++rank) {
    const auto [a, b] = (*merges_)[rank];
    for (const TokenId id : {a, b}) {
      if (id < 0 || static_cast<std::size_t>(id) >= tokens_.size() || tokens_[static_cast<std::size_t>(id)].empty())
        fail(ExitCode::data, "{}: merge {} is of the id {}, which is no token", source, rank + 1, id);
    }
    const std::string joined = tokens_[static_cast<std::size_t>(a)] + tokens_[static_cast<std::size_t>(b)];
    const TokenId id = find(joined);
    if (id < 0) fail(ExitCode::data, "{}: merge {} makes '{}', which is no token", source, rank + 1, printable(joined));
    if (merge_of(a, b) != nullptr)
      fail(ExitCode::data, "{}: merge {} of '{}' and '{}' occurs twice", source, rank + 1,
           printable(tokens_[static_cast<std::size_t>(a)]), printable(tokens_[static_cast<std::size_t>(b)]));
    add_merge(a, b, {static_cast<std::int32_t>(rank), id});
  }
}

void BpeVocabulary::derive_merges(std::string_view source) {
  struct Derived {
    TokenId a, b, id;
  };
  std::vector<Derived> all;
  for (std::size_t id = 0; id < tokens_.size(); ++id) {
    const std::string_view bytes = tokens_[id];
    constexpr std::size_t kLongest = 4096;  // of cl100k_base: 128; the time grows with its square
    if (bytes.size() > kLongest)
      fail(ExitCode::data, "{}: token {} has {} bytes; at most {} are read", source, id, bytes.size(), kLongest);
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      const TokenId a = find(bytes.substr(0, cut));
      if (a < 0) continue;
      const TokenId b = find(bytes.substr(cut));
      if (b >= 0) all.push_back({a, b, static_cast<TokenId>(id)});
    }
  }
  make_room(all.size());
  for (const Derived& one : all) add_merge(one.a, one.b, {one.id, one.id});
}

void BpeVocabulary::make_room(std::size_t merges) {
  const std::size_t room = std::bit_ceil(2 * merges + 2);
  slots_.assign(room, Slot{kNoPair, {}});
  mask_ = room - 1;
}

void BpeVocabulary::add_merge(TokenId a, TokenId b, BpeMerge merge) {
  const std::uint64_t pair = key_of(a, b);
  std::size_t at = place_of(pair) & mask_;
  while (slots_[at].pair != kNoPair) at = (at + 1) & mask_;
  slots_[at] = {pair, merge};
}

std::size_t BpeVocabulary::token_place(std::size_t hash, std::string_view bytes) const {
  std::size_t at = hash & token_mask_;
  for (; token_slots_[at].id >= 0; at = (at + 1) & token_mask_) {
    const TokenSlot& slot = token_slots_[at];
    if (slot.tag == tag_of(hash) && tokens_[static_cast<std::size_t>(slot.id)] == bytes) break;
  }
  return at;
}

TokenId BpeVocabulary::find(std::string_view bytes) const { return token_slots_[token_place(hash_of(bytes), bytes)].id; }

const BpeMerge* BpeVocabulary::merge_of(TokenId a, TokenId b) const {
  const std::uint64_t pair = key_of(a, b);
  for (std::size_t at = place_of(pair) & mask_; slots_[at].pair != kNoPair; at = (at + 1) & mask_) {
    if (slots_[at].pair == pair) return &slots_[at].made;
  }
  return nullptr;
}

}  // namespace cohort
