#include "data/tokenizer.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "data/tokenizer_kind.hpp"

namespace cohort {

void Tokenizer::check_id(std::int32_t id) const {
  if (id >= 0 && id < vocabulary_size()) return;
  fail(ExitCode::data, "the token id {} is outside the {} tokenizer's vocabulary of {}", id, kind(), vocabulary_size());
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, std::string_view source) const {
  std::vector<std::int32_t> ids(text.size());  // no tokenizer makes more tokens than bytes
  std::size_t position = 0;
  ids.resize(static_cast<std::size_t>(encode_some(text, position, ids, source)));
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) text += text_of(id);
  return text;
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

std::unique_ptr<Tokenizer> read_tokenizer(std::string_view serialised, std::string_view source) {
  const auto json = nlohmann::json::parse(serialised, nullptr, false);
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
