// tiktoken's rank files, read and written.
#include <array>
#include <charconv>
#include <numeric>

#include "base/error.hpp"
#include "base/file.hpp"
#include "data/base64.hpp"
#include "data/bpe/bpe_model.hpp"
#include "data/utf8.hpp"

namespace cohort {
namespace {

struct Line {
  std::string bytes;
  TokenId id = 0;
};

// Nothing if the line is not "BASE64 ID".
std::optional<Line> parse_line(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  std::optional<std::string> bytes = from_base64(line.substr(0, space));
  const std::string_view number = line.substr(space + 1);
  TokenId id = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), id);
  if (!bytes || error != std::errc{} || end != number.data() + number.size() || id < 0) return std::nullopt;
  return Line{std::move(*bytes), id};
}

}  // namespace

BpeModel read_tiktoken(const std::filesystem::path& file, const std::string& pattern, std::vector<SpecialToken> special) {
  const std::string text = read_file(file, "tiktoken's ranks");
  std::vector<std::string> tokens;
  for (std::size_t begin = 0, number = 1; begin < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    std::optional<Line> token = parse_line(line);
    if (!token) {
      fail(ExitCode::data, "{}:{}: '{}' is not a token in base64 and its id: not a rank file of tiktoken, or damaged",
           file.string(), number, printable(line.substr(0, 80)));
    }
    if (token->id != static_cast<TokenId>(tokens.size())) {
      fail(ExitCode::data, "{}:{}: the id {} where {} is next: the ids of a rank file have neither holes nor repetitions",
           file.string(), number, token->id, tokens.size());
    }
    tokens.push_back(std::move(token->bytes));
  }
  return {SplitPattern(pattern), BpeVocabulary(std::move(tokens), std::nullopt, std::move(special), true, file.string())};
}

BpeModel read_published_tiktoken(const std::filesystem::path& file) {
  const std::string name = file.stem().string();
  if (name == "r50k_base") return read_tiktoken(file, "gpt-2", {{"<|endoftext|>", 50256}});
  if (name == "cl100k_base") {
    return read_tiktoken(file, "cl100k",
                         {{"<|endoftext|>", 100257},
                          {"<|fim_prefix|>", 100258},
                          {"<|fim_middle|>", 100259},
                          {"<|fim_suffix|>", 100260},
                          {"<|endofprompt|>", 100276}});
  }
  fail(ExitCode::usage,
       "{}: a rank file says neither its split pattern nor its special tokens, and r50k_base and cl100k_base alone are known "
       "by their names: give the pattern, as --pattern cl100k",
       file.string());
}

std::string to_tiktoken(const BpeModel& model) {
  model.require_without_nfc("a rank file");
  const BpeVocabulary& vocabulary = model.vocabulary;
  if (vocabulary.merges()) {
    TokenId last = -1;
    for (const auto& [a, b] : *vocabulary.merges()) {
      const TokenId made = vocabulary.merge_of(a, b)->id;
      if (made <= last)
        fail(ExitCode::data,
             "the merges of this vocabulary are not in the order of the ids that they make: a rank file cannot say that");
      last = made;
    }
  }
  std::string text;
  for (std::size_t id = 0; id < vocabulary.tokens().size(); ++id) {
    if (!vocabulary.tokens()[id].empty()) text += fmt::format("{} {}\n", to_base64(vocabulary.tokens()[id]), id);
  }
  return text;
}

}  // namespace cohort
