// The commands of `cohort tokenizer`, and what they share.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "commands/commands.hpp"
#include "data/tokenizer_kind.hpp"

namespace cohort {

void add_tokenizer_train(CLI::App& tokenizer, Action& action);
void add_tokenizer_show(CLI::App& tokenizer, Action& action);
void add_tokenizer_encode(CLI::App& tokenizer, Action& action);
void add_tokenizer_decode(CLI::App& tokenizer, Action& action);
void add_tokenizer_export(CLI::App& tokenizer, Action& action);

/// Which tokenizer a command works with.
struct TokenizerChoice {
  std::string name;  // a path, or "byte"
  TokenizerLearning wanted;

  std::unique_ptr<Tokenizer> open() const;
};

/// --tokenizer, --pattern and --special.
void add_tokenizer_choice(CLI::App& command, TokenizerChoice& choice);

}  // namespace cohort
