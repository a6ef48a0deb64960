// Ids in files of other programs to a token file, and back.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "data/foreign/foreign_tokens.hpp"
#include "data/progress_callback.hpp"
#include "data/token_file.hpp"

namespace cohort {

struct ImportOptions {
  std::vector<std::string> inputs;               // joined in this order
  std::vector<std::string> validation_inputs{};  // the validation split; none: the tail of the inputs
  std::string output;
  std::string format = "auto";    // see ForeignTokens
  double validation = 0.1;        // share of the tokens, without validation inputs
  std::string end_of_document{};  // special token behind which a document ends; "": where the files say, else at their ends
};

struct Imported {
  Count train = 0, validation = 0;  // tokens
  Count documents = 0;
  std::vector<std::string> formats;  // of the files, each once
};

/// The ids are those of `tokenizer`. Memory: a block, and 8 bytes for each document that a file names. Throws Error(data) with
/// file and byte: an id outside of the vocabulary, 16-bit ids of a larger one, what ForeignTokens refuses; Error(usage).
Imported import_tokens(const ImportOptions& options, const Tokenizer& tokenizer, const Progress& progress = {});

/// The files of an export into a folder, as nanoGPT calls them: train.bin and val.bin.
std::vector<std::filesystem::path> exported_files(const std::filesystem::path& folder);
/// Writes the tokens of each split to its path. `format`: nanogpt or llmc. Throws Error(data): a vocabulary of more ids than the
/// format has, more tokens than its header says; Error(io); Error(usage): another format.
void export_tokens(const TokenFile& file, const std::string& format, const std::vector<std::filesystem::path>& paths,
                   const Progress& progress = {});

}  // namespace cohort
