// GPT-2's vocab.json and merges.txt, read and written.
#include <algorithm>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/strict_json.hpp"
#include "data/bpe/bpe_model.hpp"
#include "data/bpe/byte_letters.hpp"
#include "data/bpe/encoder.hpp"
#include "data/bpe/json_parts.hpp"
#include "data/utf8.hpp"

namespace cohort {
namespace {

constexpr int kVocabDepth = 4;  // of the objects of vocab.json: one is enough

// The two tokens of a line; nothing if it is not two.
std::optional<std::pair<std::string, std::string>> parse_merge(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) return std::nullopt;
  std::optional<std::string> a = from_byte_letters(line.substr(0, space)), b = from_byte_letters(line.substr(space + 1));
  if (!a || !b || a->empty() || b->empty()) return std::nullopt;
  return std::pair{std::move(*a), std::move(*b)};
}

}  // namespace

BpeModel read_vocab_and_merges(const std::filesystem::path& vocab, const std::filesystem::path& merges,
                               const std::string& pattern) {
  const std::string name = vocab.string();
  BpeTokens tokens =
      read_token_object(parse_strict_json(read_file(vocab, "vocabulary"), name, kVocabDepth, ExitCode::data), name);
  std::vector<BpeVocabulary::Pair> pairs;
  const std::string text = read_file(merges, "merges");
  for (std::size_t begin = 0, number = 1; begin < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    const std::string where = fmt::format("{}:{}", merges.string(), number);
    const auto merge = parse_merge(line);
    if (!merge) fail(ExitCode::data, "{}: '{}' is not a pair of tokens", where, printable(line.substr(0, 80)));
    pairs.emplace_back(tokens.id_of(merge->first, where), tokens.id_of(merge->second, where));
  }
  std::vector<SpecialToken> special = tokens.take_what_no_merge_makes(pairs);
  return {SplitPattern(pattern), BpeVocabulary(std::move(tokens.bytes), std::move(pairs), std::move(special), false, name)};
}

std::string to_vocab_json(const BpeModel& model) {
  model.require_without_nfc("vocab.json");
  return token_object(model.vocabulary, true).dump();
}

std::string to_merges_txt(const BpeModel& model) {
  model.require_without_nfc("merges.txt");
  std::string text = "#version: 0.2\n";
  for (const auto& [a, b] : listed_merges(model.vocabulary, "merges.txt")) {
    text += fmt::format("{} {}\n", to_byte_letters(model.vocabulary.tokens()[static_cast<std::size_t>(a)]),
                        to_byte_letters(model.vocabulary.tokens()[static_cast<std::size_t>(b)]));
  }
  return text;
}

}  // namespace cohort
