// A kind of tokenizer in one object: all that Cohort knows of it. Each is a file, src/data/tokenizers/NAME.cpp, whose
// tokenizers::NAME::kind() it defines; CMake makes the list of all from the files.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.hpp"

namespace cohort {

/// What is asked of a tokenizer that is learned from text. A kind that has no use for one of them refuses it.
struct TokenizerLearning {
  Count vocabulary = 0;              // tokens, at most; 0: as many as the texts give
  std::string pattern;               // a name or a regular expression that cuts text into pieces (data/bpe/split_pattern.hpp)
  std::vector<std::string> special;  // texts of special tokens
};

/// Learns a vocabulary. The ranks of a job add parts of the texts, and one of them what the others have found: the vocabulary is
/// the same for any number of ranks.
class TokenizerLearner {
 public:
  virtual ~TokenizerLearner() = default;
  /// A text, or a part of one that was cut where cut_between_pieces() says. Throws Error(data) with `source` and the place: what
  /// the texts must not hold.
  virtual void add(std::string_view text, const TextSource& source) = 0;
  /// What was added, for merge_counts() of another rank.
  virtual std::string counts() const = 0;
  virtual void merge_counts(std::string_view of_rank) = 0;
  /// Throws Error(data) if the texts hold too little. `progress`: the share that is done.
  virtual std::unique_ptr<Tokenizer> finish(const std::function<void(double)>& progress) = 0;
};

struct TokenizerKind {
  std::string name;  // in options, and as "kind" in files
  std::string help;  // for people, in a few words
  /// Throws Error(usage) for what this kind has no use for, or cannot do.
  std::unique_ptr<TokenizerLearner> (*learner)(const TokenizerLearning& wanted);
  /// From what serialise() gave; null if it is damaged.
  std::unique_ptr<Tokenizer> (*read)(const nlohmann::json& serialised);
  /// From a file or folder in which others publish such tokenizers; null if it is not one. `wanted`: pattern and special tokens,
  /// for files that do not say them. Throws Error(io), Error(data) with file and place, Error(usage) for what the file says
  /// itself.
  std::unique_ptr<Tokenizer> (*open)(const std::filesystem::path& path, const TokenizerLearning& wanted) = nullptr;
};

/// All kinds, in alphabetical order of their files.
const std::vector<const TokenizerKind*>& all_tokenizer_kinds();
/// Null if there is none of the name.
const TokenizerKind* find_tokenizer_kind(std::string_view name);
/// "byte and char".
std::string tokenizer_names();

/// A tokenizer of these texts, of the names `sources`.
std::unique_ptr<Tokenizer> learn_tokenizer(std::string_view kind, std::span<const std::string_view> texts,
                                           std::span<const std::string> sources, const TokenizerLearning& wanted = {});

/// The tokenizer of a path: of a token file, or a file or folder that a kind can open. Throws Error(io), Error(data);
/// Error(usage) if no kind knows it.
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path, const TokenizerLearning& wanted = {});

/// Throws Error(usage) if anything is asked: for kinds without a choice.
void refuse_learning_options(std::string_view kind, const TokenizerLearning& wanted);

}  // namespace cohort
