#include "data/bpe/bpe_trainer.hpp"

#include <algorithm>
#include <charconv>
#include <queue>

#include "base/error.hpp"
#include "base/text.hpp"
#include "data/bpe/byte_letters.hpp"
#include "data/utf8.hpp"

namespace cohort {
namespace {

using Pair = BpeVocabulary::Pair;

struct PairHash {
  std::size_t operator()(const Pair& pair) const {
    const auto key =
        static_cast<std::uint64_t>(static_cast<std::uint32_t>(pair.first)) << 32 | static_cast<std::uint32_t>(pair.second);
    return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15u) >> 16);
  }
};

struct Word {
  std::vector<TokenId> tokens;
  Count count;
};

struct PairFacts {
  Count count = 0;
  std::vector<std::uint32_t> words;  // in which it occurs or occurred; a word may be named twice
};

// A pair and how often it occurred when it was put into the queue.
struct Candidate {
  Count count;
  Pair pair;
  bool operator<(const Candidate& other) const { return count != other.count ? count < other.count : pair > other.pair; }
};

class Learner {
 public:
  explicit Learner(const PieceCounts& counts) {
    std::array<TokenId, 256> id_of{};
    const std::array<unsigned char, 256> bytes = bytes_by_letter();
    for (std::size_t id = 0; id < bytes.size(); ++id) {
      id_of[bytes[id]] = static_cast<TokenId>(id);
      tokens_.push_back(std::string(1, static_cast<char>(bytes[id])));
    }
    words_.reserve(counts.size());
    for (const auto& [piece, count] : counts) {
      if (piece.size() < 2) continue;
      Word word{{}, count};
      for (const char c : piece) word.tokens.push_back(id_of[static_cast<unsigned char>(c)]);
      words_.push_back(std::move(word));
    }
    for (std::size_t w = 0; w < words_.size(); ++w) {
      for (std::size_t i = 0; i + 1 < words_[w].tokens.size(); ++i)
        add({words_[w].tokens[i], words_[w].tokens[i + 1]}, words_[w].count, static_cast<std::uint32_t>(w));
    }
    for (const auto& [pair, facts] : pairs_) queue_.push({facts.count, pair});
  }

  // Makes a token of the most frequent pair; false if none occurs `least` times.
  bool merge_next(Count least) {
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const auto found = pairs_.find(best.pair);
      if (found == pairs_.end() || found->second.count < least) continue;
      if (found->second.count != best.count) {  // it has become rarer since
        queue_.push({found->second.count, best.pair});
        continue;
      }
      merge(best.pair);
      return true;
    }
    return false;
  }

  std::vector<std::string> tokens_;
  std::vector<Pair> merges_;

 private:
  void add(const Pair& pair, Count count, std::uint32_t word) {
    PairFacts& facts = pairs_[pair];
    facts.count += count;
    if (count > 0 && (facts.words.empty() || facts.words.back() != word)) facts.words.push_back(word);
  }

  void merge(const Pair& pair) {
    const auto made = static_cast<TokenId>(tokens_.size());
    tokens_.push_back(tokens_[static_cast<std::size_t>(pair.first)] + tokens_[static_cast<std::size_t>(pair.second)]);
    merges_.push_back(pair);
    const std::vector<std::uint32_t> words = std::move(pairs_[pair].words);
    pairs_.erase(pair);
    for (const std::uint32_t w : words) merge_in(words_[w], w, pair, made);
    for (const Pair& fresh : fresh_) {
      if (const auto found = pairs_.find(fresh); found != pairs_.end()) queue_.push({found->second.count, fresh});
    }
    fresh_.clear();
  }

  // Neighbours of the new token are new pairs; those of its parts occur less often.
  void merge_in(Word& word, std::uint32_t w, const Pair& pair, TokenId made) {
    std::vector<TokenId>& t = word.tokens;
    std::size_t to = 0;
    for (std::size_t i = 0; i < t.size();) {
      if (i + 1 >= t.size() || t[i] != pair.first || t[i + 1] != pair.second) {
        t[to++] = t[i++];
        continue;
      }
      if (to > 0) {
        lose({t[to - 1], pair.first}, word.count);
        gain({t[to - 1], made}, word.count, w);
      }
      if (i + 2 < t.size()) {
        lose({pair.second, t[i + 2]}, word.count);
        gain({made, t[i + 2]}, word.count, w);
      }
      t[to++] = made;
      i += 2;
    }
    t.resize(to);
  }

  void gain(const Pair& pair, Count count, std::uint32_t word) {
    add(pair, count, word);
    fresh_.push_back(pair);
  }
  void lose(const Pair& pair, Count count) {
    if (const auto found = pairs_.find(pair); found != pairs_.end()) found->second.count -= count;
  }

  std::vector<Word> words_;
  std::unordered_map<Pair, PairFacts, PairHash> pairs_;
  std::priority_queue<Candidate> queue_;
  std::vector<Pair> fresh_;
};

}  // namespace

void count_pieces(const SplitPattern& pattern, std::string_view text, PieceCounts& counts) {
  std::string piece;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = pattern.end_of_piece(text, begin);
    piece.assign(text, begin, end - begin);
    ++counts[piece];
    begin = end;
  }
}

namespace {

// Whether a character that is no space begins at text[begin].
bool sign_begins(std::string_view text, std::size_t begin) {
  if (static_cast<unsigned char>(text[begin]) < 0x80) return text[begin] > ' ' && text[begin] <= '~';
  const std::optional<std::uint32_t> found = code_point_at(text, begin);
  constexpr std::array<std::uint32_t, 6> kSpaces{0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};  // White_Space of Unicode
  return found && *found > 0xA0 && (*found < 0x2000 || *found > 0x200A) &&
         std::find(kSpaces.begin(), kSpaces.end(), *found) == kSpaces.end();
}

// Whether one ends before text[end].
bool sign_ends(std::string_view text, std::size_t end) {
  std::size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0u) == 0x80u) --begin;
  return sign_begins(text.substr(0, end), begin);
}

}  // namespace

// "COUNT LENGTH PIECE" one behind the other.
std::string pack_counts(const PieceCounts& counts) {
  std::string packed;
  for (const auto& [piece, count] : counts) packed += fmt::format("{} {} {}", count, piece.size(), piece);
  return packed;
}

void add_packed_counts(std::string_view packed, PieceCounts& counts) {
  const auto number = [&] {
    Count value = 0;
    const auto [end, error] = std::from_chars(packed.data(), packed.data() + packed.size(), value);
    COHORT_CHECK(error == std::errc{} && end < packed.data() + packed.size(), "counts of pieces that are cut short");
    packed.remove_prefix(static_cast<std::size_t>(end - packed.data()) + 1);
    return value;
  };
  while (!packed.empty()) {
    const Count count = number();
    const auto size = static_cast<std::size_t>(number());
    counts[std::string(packed.substr(0, size))] += count;
    packed.remove_prefix(size);
  }
}

std::size_t cut_between_pieces(std::string_view text, std::size_t wanted) {
  const auto is_letter = [&](std::size_t at) { return (text[at] | 0x20) >= 'a' && (text[at] | 0x20) <= 'z'; };
  for (std::size_t at = std::max<std::size_t>(wanted, 2); at < text.size(); ++at) {
    if (text[at - 1] == '\n' && sign_begins(text, at) && sign_ends(text, at - 1)) return at;
    if (text[at] == ' ' && at + 1 < text.size() && is_letter(at - 1) && is_letter(at + 1)) return at;
  }
  return text.size();
}

BpeVocabulary train_bpe(const PieceCounts& counts, const BpeTraining& training, const std::function<void(double)>& progress) {
  const auto special = static_cast<Count>(training.special.size());
  const Count merges = training.vocabulary - 256 - special;
  if (merges < 0) {
    fail(ExitCode::usage, "a vocabulary of {} has no room for the 256 bytes and {}", training.vocabulary,
         counted(special, "special token"));
  }
  Learner learner(counts);
  for (Count done = 0; done < merges && learner.merge_next(training.least); ++done) {
    if (progress && done % 64 == 0) progress(static_cast<double>(done) / static_cast<double>(merges));
  }
  std::vector<SpecialToken> tokens;
  for (const std::string& text : training.special)
    tokens.push_back({text, static_cast<TokenId>(learner.tokens_.size() + tokens.size())});
  return {std::move(learner.tokens_), std::move(learner.merges_), std::move(tokens), false, "the learned vocabulary"};
}

}  // namespace cohort
