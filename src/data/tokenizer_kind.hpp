// A kind of tokenizer in one object: all that Cohort knows of it. Each is a file, src/data/tokenizers/NAME.cpp, whose
// tokenizers::NAME::kind() it defines; CMake makes the list of all from the files.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.hpp"

namespace cohort {

struct TokenizerKind {
  std::string name;  // in options, and as "kind" in files
  std::string help;  // for people, in a few words
  /// One for these texts, of the names `sources`. Throws Error(data): what the texts must not hold, or too little of it.
  std::unique_ptr<Tokenizer> (*learn)(std::span<const std::string_view> texts, std::span<const std::string> sources);
  /// From what serialise() gave; null if it is damaged.
  std::unique_ptr<Tokenizer> (*read)(const nlohmann::json& serialised);
};

/// All kinds, in alphabetical order of their files.
const std::vector<const TokenizerKind*>& all_tokenizer_kinds();
/// Null if there is none of the name.
const TokenizerKind* find_tokenizer_kind(std::string_view name);
/// "byte and char".
std::string tokenizer_names();

}  // namespace cohort
