// `cohort tokenizer`: a group of commands for tokenizers.
#include "commands/tokenizer/tokenizer_commands.hpp"

namespace cohort {

std::unique_ptr<Tokenizer> TokenizerChoice::open() const {
  return name == "byte" ? learn_tokenizer("byte", {}, {}, wanted) : open_tokenizer(name, wanted);
}

void add_tokenizer_choice(CLI::App& command, TokenizerChoice& choice) {
  command
      .add_option(
          "--tokenizer", choice.name,
          "tokenizer.json; a folder with it, or with vocab.json and merges.txt; a rank file of tiktoken; a token file; or: byte")
      ->required();
  command.add_option(
      "--pattern", choice.wanted.pattern,
      "Of a rank file: how text is cut before merges, gpt-2, cl100k or a regular expression; of r50k_base.tiktoken and "
      "cl100k_base.tiktoken it is known");
  command
      .add_option("--special-token", choice.wanted.special,
                  "Of a rank file: a special token (may be repeated); ids follow the ranks")
      ->allow_extra_args(false);
}

void add_tokenizer_command(CLI::App& app, Action& action) {
  auto* tokenizer = app.add_subcommand("tokenizer", "Learn a vocabulary; encode, decode, show and convert");
  tokenizer->require_subcommand(1);
  tokenizer->footer(
      "Examples:\n"
      "  cohort tokenizer train --input data/stories.txt --vocabulary 1024 --out data/own.json\n"
      "  cohort tokenizer show --tokenizer data/own.json\n"
      "  cohort tokenizer encode --tokenizer data/own.json \"Once upon a time\"\n"
      "  cohort data prepare --input data/stories.txt --out data/own.h5 --tokenizer data/own.json");
  add_tokenizer_train(*tokenizer, action);
  add_tokenizer_show(*tokenizer, action);
  add_tokenizer_encode(*tokenizer, action);
  add_tokenizer_decode(*tokenizer, action);
  add_tokenizer_export(*tokenizer, action);
}

}  // namespace cohort
