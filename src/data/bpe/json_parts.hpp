// What vocab.json and tokenizer.json have in common: the object of tokens and their ids.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/bpe/bpe_vocabulary.hpp"

namespace cohort {

/// Tokens while they are read.
struct BpeTokens {
  std::vector<std::string> bytes;  // by id
  std::unordered_map<std::string, TokenId> ids;

  /// Throws Error(data) with `where` if there is no such token.
  TokenId id_of(const std::string& token, std::string_view where) const;
  /// Takes the tokens of several bytes that no merge of the list makes out of `bytes`: what is left of them is a text that stands
  /// for a position.
  std::vector<SpecialToken> take_what_no_merge_makes(const std::vector<BpeVocabulary::Pair>& merges);
};

/// {"token in byte letters": id, ...}. Throws Error(data), which begins with `where`: not such an object, an id of two tokens, a
/// token that is not in byte letters, a hole in the ids.
BpeTokens read_token_object(const nlohmann::json& object, const std::string& where);

nlohmann::ordered_json token_object(const BpeVocabulary& vocabulary, bool with_special);

}  // namespace cohort
