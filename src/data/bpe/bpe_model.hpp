// A byte-level BPE model, split pattern and vocabulary, and the files in which such models are published.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "data/bpe/bpe_vocabulary.hpp"
#include "data/bpe/split_pattern.hpp"

namespace cohort {

struct BpeModel {
  SplitPattern pattern;
  BpeVocabulary vocabulary;
  bool nfc = false;  // texts are normalized (data/unicode_nfc.hpp) before they are split

  /// Throws Error(data) if the model normalizes, which files of `format` cannot say.
  void require_without_nfc(std::string_view format) const {
    if (nfc) fail(ExitCode::data, "this tokenizer normalizes text (NFC), which {} cannot say; tokenizer.json can", format);
  }
};

/// tiktoken's rank files: a line for each token, its bytes in base64 and its id, from 0 without holes. The file says neither
/// pattern nor special tokens. Throws Error(io); Error(data) with file and line.
BpeModel read_tiktoken(const std::filesystem::path& file, const std::string& pattern, std::vector<SpecialToken> special);

/// The same for the vocabularies that tiktoken knows by name, r50k_base and cl100k_base (the file's name is that and .tiktoken),
/// with their pattern and special tokens. Throws Error(usage) for other names.
BpeModel read_published_tiktoken(const std::filesystem::path& file);

/// GPT-2's pair of files: vocab.json (an object of tokens, in byte letters, and their ids) and merges.txt (a pair of tokens a
/// line, after a line "#version"). A token of several bytes that no merge makes is a special one, as <|endoftext|> in GPT-2.
/// Throws Error(io); Error(data) with file and line.
BpeModel read_vocab_and_merges(const std::filesystem::path& vocab, const std::filesystem::path& merges,
                               const std::string& pattern);

/// Hugging Face's tokenizer.json with a byte-level BPE model. What would change the ids (normalizers but NFC, byte fallback, a
/// prefix space, other models) is refused by its name; a post-processor is left out, since Cohort adds no tokens by itself.
/// Throws Error(io); Error(data) with the place in the JSON.
BpeModel read_tokenizer_json(const std::filesystem::path& file);

/// The texts of such files. Throws Error(data) if the format cannot say what the model is: rank files for a vocabulary whose
/// listed merges are not in the order of the ids they make; any but tokenizer.json for a model that normalizes.
std::string to_tiktoken(const BpeModel& model);
std::string to_vocab_json(const BpeModel& model);
std::string to_merges_txt(const BpeModel& model);
std::string to_tokenizer_json(const BpeModel& model);

}  // namespace cohort
