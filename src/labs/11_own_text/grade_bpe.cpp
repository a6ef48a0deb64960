// 11.1 to 11.3: against a plain reference, and against what the usual mistakes give.
#include <algorithm>
#include <cohort/lab11_own_text.hpp>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "labs/11_own_text/grade_text.hpp"

namespace cohort::labs::lab11_own_text {
namespace {

using Tokens = std::vector<int>;

Tokens bytes_of(const std::string& text) {
  Tokens tokens;
  for (const char letter : text) tokens.push_back(static_cast<unsigned char>(letter));
  return tokens;
}

std::string shown(int token) {
  return token >= 33 && token < 127 ? fmt::format("'{}'", static_cast<char>(token)) : std::to_string(token);
}
std::string shown(const Tokens& tokens) {
  std::vector<std::string> words;
  for (const int token : tokens) words.push_back(shown(token));
  return words.empty() ? "nothing" : join(words, " ");
}
std::string shown(int left, int right) { return fmt::format("({}, {})", shown(left), shown(right)); }

std::vector<BpeWord> corpus(const std::vector<std::pair<std::string, long>>& words) {
  std::vector<BpeWord> made;
  for (const auto& [word, count] : words) made.push_back({bytes_of(word), count});
  return made;
}

using Counts = std::map<std::pair<int, int>, long>;

Counts counts_of(const std::vector<BpeWord>& words) {
  Counts counts;
  for (const BpeWord& word : words) {
    for (std::size_t i = 1; i < word.tokens.size(); ++i) counts[{word.tokens[i - 1], word.tokens[i]}] += word.count;
  }
  return counts;
}

BpePair best_of(const Counts& counts) {
  BpePair best{-1, -1, 0};
  for (const auto& [pair, count] : counts) {
    if (count > best.count) best = {pair.first, pair.second, count};
  }
  return best;
}

// Each word once, whatever its count.
long count_in_list(const std::vector<BpeWord>& words, int left, int right) {
  long count = 0;
  for (const BpeWord& word : words) {
    for (std::size_t i = 1; i < word.tokens.size(); ++i) count += word.tokens[i - 1] == left && word.tokens[i] == right;
  }
  return count;
}

void check_best(const BpePair& found, const std::vector<BpeWord>& words) {
  const Counts counts = counts_of(words);
  const BpePair best = best_of(counts);
  if (found.left == best.left && found.right == best.right && found.count == best.count) return;
  const auto there = counts.find({found.left, found.right});
  if (there == counts.end()) {
    if (best.count == 0)
      reject("there is no pair, which is told as {{-1, -1, 0}}, not as {} {} times", shown(found.left, found.right), found.count);
    reject("{} stand side by side in no word: pairs are those within a word, not across two", shown(found.left, found.right));
  }
  const std::string pair = shown(found.left, found.right), right = shown(best.left, best.right);
  if (there->second == best.count && !(found.left == best.left && found.right == best.right))
    reject(
        "{} and {} occur {} times each: of equals the one with the smaller left token, then the smaller right token, is the best",
        pair, right, best.count);
  if (there->second == found.count && best.left == best.right)
    reject("{} occurs {} times, but {} occurs {} times: each place in a word counts, also where two overlap", pair, found.count,
           right, best.count);
  if (there->second == found.count) reject("{} occurs {} times, but {} occurs {} times", pair, found.count, right, best.count);
  if (found.count == count_in_list(words, found.left, found.right))
    reject("{} is counted {} times, but it occurs {} times: a word counts as often as the text has it", pair, found.count,
           there->second);
  reject("{} is counted {} times, but it occurs {} times: {}", pair, found.count, there->second,
         found.count > there->second ? "pairs are those within a word, not across two"
                                     : "each place in a word counts, also where two overlap");
}

// ---- merges

Tokens merged(const Tokens& tokens, const BpeMerge& merge) {
  Tokens result;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool here = i + 1 < tokens.size() && tokens[i] == merge.left && tokens[i + 1] == merge.right;
    result.push_back(here ? merge.merged : tokens[i]);
    i += here ? 1 : 0;
  }
  return result;
}

// From right to left: what a a a must not become.
Tokens merged_from_right(Tokens tokens, const BpeMerge& merge) {
  std::reverse(tokens.begin(), tokens.end());
  Tokens result = merged(tokens, {merge.right, merge.left, merge.merged});
  std::reverse(result.begin(), result.end());
  return result;
}

void check_merge(void (*merge_pair)(Tokens&, int, int, int), const std::string& text, const std::string& pair) {
  const BpeMerge merge{bytes_of(pair)[0], bytes_of(pair)[1], 256};
  const Tokens before = bytes_of(text), right = merged(before, merge);
  Tokens found = before;
  merge_pair(found, merge.left, merge.right, merge.merged);
  if (found == right) return;
  const std::string what = fmt::format("{} becomes {}, not {}", shown(before), shown(found), shown(right));
  const auto places = [&](const Tokens& tokens) { return std::count(tokens.begin(), tokens.end(), merge.merged); };
  if (found == merged_from_right(before, merge)) reject("{}: merges go from left to right", what);
  if (places(found) < places(right))
    reject("{}: {} stand side by side at {} places that do not overlap", what, shown(merge.left, merge.right), places(right));
  reject("{}{}", what, found.size() < right.size() ? ": tokens beside the pair are lost" : "");
}

// ---- encoding

std::size_t rank_of(std::span<const BpeMerge> merges, int left, int right) {
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    if (merges[rank].left == left && merges[rank].right == right) return rank;
  }
  return merges.size();
}

// `better` of two ranks of possible merges.
template <class Better>
Tokens encoded(Tokens tokens, std::span<const BpeMerge> merges, const Better& better) {
  for (;;) {
    std::size_t best = merges.size(), place = 0;
    for (std::size_t i = 1; i < tokens.size(); ++i) {
      const std::size_t rank = rank_of(merges, tokens[i - 1], tokens[i]);
      if (rank == merges.size() || (best != merges.size() && !better(rank, best))) continue;
      best = rank;
      place = i;
    }
    if (best == merges.size()) return tokens;
    tokens[place - 1] = merges[best].merged;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(place));
  }
}

Tokens bytes_of(int token, std::span<const BpeMerge> merges) {
  for (const BpeMerge& merge : merges) {
    if (merge.merged != token) continue;
    Tokens all = bytes_of(merge.left, merges);
    const Tokens rest = bytes_of(merge.right, merges);
    all.insert(all.end(), rest.begin(), rest.end());
    return all;
  }
  return {token};
}

// The longest token of the vocabulary at each place, as many tokenizers that are not BPE have it.
Tokens longest_matches(const Tokens& text, std::span<const BpeMerge> merges) {
  Tokens result;
  for (std::size_t at = 0; at < text.size();) {
    int token = text[at];
    std::size_t length = 1;
    for (const BpeMerge& merge : merges) {
      const Tokens bytes = bytes_of(merge.merged, merges);
      if (bytes.size() <= length || at + bytes.size() > text.size()) continue;
      if (!std::equal(bytes.begin(), bytes.end(), text.begin() + static_cast<std::ptrdiff_t>(at))) continue;
      token = merge.merged;
      length = bytes.size();
    }
    result.push_back(token);
    at += length;
  }
  return result;
}

std::vector<BpeMerge> learned(std::vector<BpeWord> words, int merges) {
  std::vector<BpeMerge> all;
  for (int i = 0; i < merges; ++i) {
    const BpePair best = best_of(counts_of(words));
    if (best.count < 2) break;
    all.push_back({best.left, best.right, 256 + i});
    for (BpeWord& word : words) word.tokens = merged(word.tokens, all.back());
  }
  return all;
}

void check_encoding(void (*encode)(Tokens&, std::span<const BpeMerge>), const std::string& text,
                    const std::vector<BpeMerge>& merges) {
  const Tokens bytes = bytes_of(text);
  const auto first_learned = [](std::size_t a, std::size_t b) { return a < b; };
  const Tokens right = encoded(bytes, merges, first_learned);
  Tokens found = bytes;
  encode(found, merges);
  if (found == right) return;
  const std::string what = fmt::format("\"{}\" becomes {}, not {}", text, shown(found), shown(right));
  if (found == longest_matches(bytes, merges))
    reject("{}: that is the longest token at each place, but merges are applied in the order in which they were learned", what);
  if (found == encoded(bytes, merges, [](std::size_t, std::size_t) { return false; }))
    reject("{}: that is the leftmost merge first, but the one that was learned first comes first", what);
  if (found == encoded(bytes, merges, [](std::size_t a, std::size_t b) { return a > b; }))
    reject("{}: that is the merge that was learned last first", what);
  for (std::size_t i = 1; i < found.size(); ++i) {
    const std::size_t rank = rank_of(merges, found[i - 1], found[i]);
    if (rank < merges.size())
      reject("{}: {} and {} stand side by side, and merge {} makes {} of them", what, shown(found[i - 1]), shown(found[i]), rank,
             shown(merges[rank].merged));
  }
  reject("{}", what);
}

const std::vector<std::pair<std::string, long>>& many_words() {
  static const std::vector<std::pair<std::string, long>> kWords{
      {"the", 60}, {"then", 11},  {"they", 9},    {"other", 7},       {"mother", 5}, {"there", 13},
      {"here", 8}, {"banana", 4}, {"bandana", 3}, {"mississippi", 2}, {"aaaa", 3},   {"abc", 10},
      {"bcd", 12}, {"abcd", 1},   {"low", 5},     {"lower", 2},       {"newest", 6}, {"widest", 3}};
  return kWords;
}

}  // namespace

void grade_best_pair(const Library& library, Grading& grading) {
  auto* best_pair = library.function<BpePair(std::span<const BpeWord>)>("best_pair");
  const auto check = [&](const char* words, const std::vector<BpeWord>& text) {
    grading.begin(words);
    check_best(best_pair(text), text);
  };
  check("low 5 times, lower 2, newest 6, widest 3", corpus({{"low", 5}, {"lower", 2}, {"newest", 6}, {"widest", 3}}));
  check("ab 3 times, cd 5 times", corpus({{"ab", 3}, {"cd", 5}}));
  check("zz, ab and ba 2 times each", corpus({{"zz", 2}, {"ba", 2}, {"ab", 2}}));
  check("ad, ac and bc 4 times each", corpus({{"bc", 4}, {"ad", 4}, {"ac", 4}}));
  check("aaa 3 times, bc 5 times", corpus({{"aaa", 3}, {"bc", 5}}));
  check("ab, ba, ba, ab, once each", corpus({{"ab", 1}, {"ba", 1}, {"ba", 1}, {"ab", 1}}));
  check("words of one letter", corpus({{"a", 9}, {"b", 7}}));
  check("no words", {});
  check("bytes above 127, and tokens that were merged", {{{300, 200, 300, 200}, 2}, {{200, 300}, 3}, {{256, 257, 256, 257}, 1}});
  std::vector<BpeWord> words = corpus(many_words());
  for (int merge = 0; merge < 12; ++merge) {
    grading.begin(fmt::format("18 words after {}", counted(merge, "merge")));
    check_best(best_pair(words), words);
    const BpePair best = best_of(counts_of(words));
    for (BpeWord& word : words) word.tokens = merged(word.tokens, {best.left, best.right, 256 + merge});
  }
}

void grade_merge_pair(const Library& library, Grading& grading) {
  auto* merge_pair = library.function<void(Tokens&, int, int, int)>("merge_pair");
  for (const auto& [text, pair] : std::initializer_list<std::pair<const char*, const char*>>{{"abc", "ab"},
                                                                                             {"cab", "ab"},
                                                                                             {"abab", "ab"},
                                                                                             {"xabyabz", "ab"},
                                                                                             {"aaa", "aa"},
                                                                                             {"aaaa", "aa"},
                                                                                             {"aaaaa", "aa"},
                                                                                             {"aab", "ab"},
                                                                                             {"ba", "ab"},
                                                                                             {"a", "ab"},
                                                                                             {"", "ab"},
                                                                                             {"abb", "ab"},
                                                                                             {"ababababc", "ab"}}) {
    grading.begin(fmt::format("({}, {}) in \"{}\"", pair[0], pair[1], text));
    check_merge(merge_pair, text, pair);
  }
}

void grade_encode(const Library& library, Grading& grading) {
  auto* encode = library.function<void(Tokens&, std::span<const BpeMerge>)>("bpe_encode");
  grading.begin("\"abc\", merges a b, b c");
  check_encoding(encode, "abc", {{'a', 'b', 256}, {'b', 'c', 257}});
  grading.begin("\"bcd\", merges c d, b c, b cd");
  check_encoding(encode, "bcd", {{'c', 'd', 256}, {'b', 'c', 257}, {'b', 256, 258}});
  const std::vector<BpeMerge> few{{'b', 'c', 256}, {'a', 'b', 257}, {'c', 'd', 258}, {257, 'c', 259}};
  for (const char* text : {"abc", "ab", "abcd", "abab", "cd", "x", "", "aabbcc", "bcbc"}) {
    grading.begin(fmt::format("\"{}\", merges b c, a b, c d, ab c", text));
    check_encoding(encode, text, few);
  }
  const std::vector<BpeMerge> repeated{{'a', 'a', 256}, {256, 256, 257}};
  for (const char* text : {"aaa", "aaaa", "aaaaa", "aaaaaaaa"}) {
    grading.begin(fmt::format("\"{}\", merges a a, aa aa", text));
    check_encoding(encode, text, repeated);
  }
  const std::vector<BpeMerge> merges = learned(corpus(many_words()), 40);
  for (const char* text :
       {"the", "mother", "bananas", "mississippi", "theythere", "newestlower", "zebra", "abcdabcd", "otherwise"}) {
    grading.begin(fmt::format("\"{}\", {}", text, counted(static_cast<Count>(merges.size()), "learned merge")));
    check_encoding(encode, text, merges);
  }
  grading.begin("no merges");
  check_encoding(encode, "text", {});
}

}  // namespace cohort::labs::lab11_own_text
