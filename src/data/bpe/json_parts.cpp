#include "data/bpe/json_parts.hpp"

#include "base/error.hpp"
#include "data/bpe/byte_letters.hpp"
#include "data/utf8.hpp"

namespace cohort {

TokenId BpeTokens::id_of(const std::string& token, std::string_view where) const {
  const auto found = ids.find(token);
  if (found == ids.end()) fail(ExitCode::data, "{}: '{}' is no token of the vocabulary", where, printable(token));
  return found->second;
}

std::vector<SpecialToken> BpeTokens::take_what_no_merge_makes(const std::vector<BpeVocabulary::Pair>& merges) {
  std::vector<bool> made(bytes.size());
  for (const auto& [a, b] : merges) {
    const auto found = ids.find(bytes[static_cast<std::size_t>(a)] + bytes[static_cast<std::size_t>(b)]);
    if (found != ids.end()) made[static_cast<std::size_t>(found->second)] = true;
  }
  std::vector<SpecialToken> special;
  for (std::size_t id = 0; id < bytes.size(); ++id) {
    if (bytes[id].size() < 2 || made[id]) continue;
    special.push_back({std::move(bytes[id]), static_cast<TokenId>(id)});
    bytes[id].clear();
  }
  return special;
}

BpeTokens read_token_object(const nlohmann::json& object, const std::string& where) {
  if (!object.is_object() || object.empty()) fail(ExitCode::data, "{}: not an object of tokens and their ids", where);
  BpeTokens tokens;
  tokens.bytes.resize(object.size());
  std::vector<bool> taken(object.size());
  for (const auto& [letters, id] : object.items()) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 ||
        id.get<std::int64_t>() >= static_cast<std::int64_t>(object.size())) {
      fail(ExitCode::data, "{}: the token '{}' has the id {}, where {} tokens have the ids 0 to {}, without holes", where,
           printable(letters), id.dump(), object.size(), object.size() - 1);
    }
    const auto at = id.get<std::size_t>();
    std::optional<std::string> bytes = from_byte_letters(letters);
    if (!bytes || bytes->empty())
      fail(ExitCode::data, "{}: the token '{}' is not in the letters that byte-level vocabularies use for bytes", where,
           printable(letters));
    if (taken[at])
      fail(ExitCode::data, "{}: the id {} is of '{}' and of '{}'", where, at, printable(tokens.bytes[at]), printable(*bytes));
    taken[at] = true;
    tokens.ids.emplace(*bytes, static_cast<TokenId>(at));
    tokens.bytes[at] = std::move(*bytes);
  }
  return tokens;
}

nlohmann::ordered_json token_object(const BpeVocabulary& vocabulary, bool with_special) {
  std::vector<std::string> letters(vocabulary.tokens().size());
  for (std::size_t id = 0; id < letters.size(); ++id) letters[id] = to_byte_letters(vocabulary.tokens()[id]);
  if (with_special) {
    for (const SpecialToken& token : vocabulary.special()) letters[static_cast<std::size_t>(token.id)] = token.text;
  }
  nlohmann::ordered_json::object_t object;  // a list in the order of the ids: appending to a json would look for each name
  for (std::size_t id = 0; id < letters.size(); ++id) {
    if (!letters[id].empty()) object.emplace_back(letters[id], id);
  }
  return object;
}

}  // namespace cohort
