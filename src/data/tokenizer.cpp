#include "data/tokenizer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/strict_json.hpp"
#include "base/text.hpp"
#include "data/token_file.hpp"
#include "data/tokenizer_kind.hpp"

namespace cohort {

void Tokenizer::check_id(std::int32_t id) const {
  if (id >= 0 && id < vocabulary_size()) return;
  fail(ExitCode::data, "the token id {} is outside the {} tokenizer's vocabulary of {}", id, kind(), vocabulary_size());
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, const TextSource& source) const {
  std::vector<std::int32_t> ids, block(most_tokens(std::min(text.size(), kLeastBlock)));
  for (std::size_t position = 0; position < text.size();) {
    const Count count = encode_some(text, position, block, source);
    ids.insert(ids.end(), block.begin(), block.begin() + count);
  }
  return ids;
}

std::vector<std::int32_t> Tokenizer::encode_with_special(std::string_view text, std::string_view source) const {
  std::vector<SpecialToken> special = special_tokens();
  std::sort(special.begin(), special.end(),
            [](const SpecialToken& a, const SpecialToken& b) { return a.text.size() > b.text.size(); });
  std::vector<std::int32_t> ids;
  std::size_t plain = 0;  // where the text begins that is not encoded yet
  const auto encode_until = [&](std::size_t end) {
    const std::vector<std::int32_t> more = encode(text.substr(plain, end - plain), source);
    ids.insert(ids.end(), more.begin(), more.end());
  };
  for (std::size_t at = 0; at < text.size();) {
    const auto found = std::find_if(special.begin(), special.end(),
                                    [&](const SpecialToken& token) { return text.substr(at).starts_with(token.text); });
    if (found == special.end()) {
      ++at;
      continue;
    }
    encode_until(at);
    ids.push_back(found->id);
    at += found->text.size();
    plain = at;
  }
  encode_until(text.size());
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) text += text_of(id);
  return text;
}

std::int32_t special_token(const Tokenizer& tokenizer, const std::string& text, std::string_view option) {
  std::vector<std::string> known;
  for (const SpecialToken& token : tokenizer.special_tokens()) {
    if (token.text == text) return token.id;
    known.push_back(token.text);
  }
  fail(ExitCode::usage, "{} '{}': the {} tokenizer has {}", option, text, tokenizer.kind(),
       known.empty() ? "no special tokens" : "no such special token, but " + join(known));
}

const TokenizerKind* find_tokenizer_kind(std::string_view name) {
  for (const TokenizerKind* kind : all_tokenizer_kinds()) {
    if (kind->name == name) return kind;
  }
  return nullptr;
}

std::string tokenizer_names() {
  std::vector<std::string> names;
  for (const TokenizerKind* kind : all_tokenizer_kinds()) names.push_back(kind->name);
  return join(names, " and ");
}

std::unique_ptr<Tokenizer> learn_tokenizer(std::string_view kind, std::span<const std::string_view> texts,
                                           std::span<const std::string> sources, const TokenizerLearning& wanted) {
  COHORT_CHECK(texts.size() == sources.size(), "{} texts with {} names", texts.size(), sources.size());
  const TokenizerKind* found = find_tokenizer_kind(kind);
  if (found == nullptr) fail(ExitCode::usage, "unknown tokenizer '{}'; available: {}", kind, tokenizer_names());
  const std::unique_ptr<TokenizerLearner> learner = found->learner(wanted);
  for (std::size_t i = 0; i < texts.size(); ++i) learner->add(texts[i], sources[i]);
  return learner->finish({});
}

std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path, const TokenizerLearning& wanted) {
  if (!std::filesystem::exists(path)) fail(ExitCode::io, "'{}': no such file or folder", path.string());
  for (const TokenizerKind* kind : all_tokenizer_kinds()) {
    if (kind->open == nullptr) continue;
    if (std::unique_ptr<Tokenizer> tokenizer = kind->open(path, wanted)) return tokenizer;
  }
  if (std::filesystem::is_directory(path))
    fail(ExitCode::usage, "'{}': a folder without tokenizer.json, vocab.json and merges.txt, or tokenizer.model", path.string());
  refuse_learning_options("token file's", wanted);
  return read_tokenizer(TokenFile(path.string()).tokenizer().serialise(), path.string());
}

void refuse_learning_options(std::string_view kind, const TokenizerLearning& wanted) {
  const char* what = wanted.vocabulary > 0 ? "size of vocabulary" : !wanted.pattern.empty() ? "split pattern" : "special tokens";
  if (wanted.vocabulary > 0 || !wanted.pattern.empty() || !wanted.special.empty())
    fail(ExitCode::usage, "the tokenizer {} has no choice of {}; bpe has", kind, what);
}

std::unique_ptr<Tokenizer> read_tokenizer(std::string_view serialised, std::string_view source) {
  constexpr int kDepth = 64;
  nlohmann::json json;
  try {
    json = parse_strict_json(serialised, std::string(source), kDepth);
  } catch (const Error& error) {
    fail(ExitCode::data, "{}; its tokenizer is damaged", error.what());
  }
  if (!json.is_object() || !json.contains("kind") || !json["kind"].is_string())
    fail(ExitCode::data, "{}: its tokenizer is damaged", source);
  const auto name = json["kind"].get<std::string>();
  const TokenizerKind* kind = find_tokenizer_kind(name);
  if (kind == nullptr) fail(ExitCode::data, "{}: its tokenizer is '{}'; this version has {}", source, name, tokenizer_names());
  std::unique_ptr<Tokenizer> tokenizer = kind->read(json);
  if (tokenizer == nullptr) fail(ExitCode::data, "{}: the vocabulary of its {} tokenizer is damaged", source, name);
  return tokenizer;
}

}  // namespace cohort
