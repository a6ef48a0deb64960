// `cohort tokenizer show` and `export`: what a tokenizer is, and the same in the files of others.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "commands/common/output_file.hpp"
#include "commands/tokenizer/tokenizer_commands.hpp"
#include "data/bpe/bpe_model.hpp"
#include "data/utf8.hpp"

namespace cohort {
namespace {

constexpr std::size_t kLongest = 12;  // tokens that are shown
constexpr std::size_t kShown = 40;    // bytes of one

struct ShowOptions {
  TokenizerChoice tokenizer;
  std::string format;
  std::string out;
  bool overwrite = false;
};

void show_bpe(const BpeModel& model) {
  const BpeVocabulary& vocabulary = model.vocabulary;
  fmt::print("pattern     {}\n", model.pattern.expression());
  fmt::print("merges      {}\n", vocabulary.merges()
                                     ? std::to_string(vocabulary.merges()->size())
                                     : "by id: any two tokens whose joined bytes are a token, the smallest id first");
  for (const SpecialToken& token : vocabulary.special()) fmt::print("special     {} = {}\n", token.id, printable(token.text));
  std::vector<std::size_t> ids(vocabulary.tokens().size());
  for (std::size_t id = 0; id < ids.size(); ++id) ids[id] = id;
  std::stable_sort(ids.begin(), ids.end(),
                   [&](std::size_t a, std::size_t b) { return vocabulary.tokens()[a].size() > vocabulary.tokens()[b].size(); });
  Table longest({"longest", "id", "bytes"});
  for (std::size_t i = 0; i < std::min(kLongest, ids.size()); ++i) {
    const std::string& token = vocabulary.tokens()[ids[i]];
    longest.add({fmt::format("'{}'{}", printable(token.substr(0, kShown)), token.size() > kShown ? " ..." : ""),
                 std::to_string(ids[i]), std::to_string(token.size())});
  }
  fmt::print("\n{}", longest.str());
}

int show(const ShowOptions& options) {
  const std::unique_ptr<Tokenizer> tokenizer = options.tokenizer.open();
  fmt::print("tokenizer   {}\nvocabulary  {}\n", tokenizer->kind(), counted(tokenizer->vocabulary_size(), "token"));
  if (const std::string losses = tokenizer->losses(); !losses.empty()) fmt::print("not kept    {}\n", losses);
  if (const BpeModel* model = tokenizer->bpe()) show_bpe(*model);
  return 0;
}

int export_tokenizer(const ShowOptions& options) {
  const std::unique_ptr<Tokenizer> tokenizer = options.tokenizer.open();
  const BpeModel* model = tokenizer->bpe();
  if (model == nullptr) fail(ExitCode::usage, "a {} tokenizer: these files are for bpe tokenizers", tokenizer->kind());
  const std::filesystem::path out = options.out;
  const auto write = [&](const std::filesystem::path& path, const std::string& text) {
    write_file_atomically(output_file("--out", path, options.overwrite), text);
    fmt::print("{}\n", path.string());
  };
  if (options.format == "tiktoken") {
    write(out, to_tiktoken(*model));
  } else if (options.format == "json") {
    write(out, to_tokenizer_json(*model));
  } else {
    const std::string vocab = to_vocab_json(*model), merges = to_merges_txt(*model);
    for (const char* name : {"vocab.json", "merges.txt"}) output_file("--out", out / name, options.overwrite);  // both, or none
    make_folders(out);
    write(out / "vocab.json", vocab);
    write(out / "merges.txt", merges);
  }
  return 0;
}

}  // namespace

void add_tokenizer_show(CLI::App& tokenizer, Action& action) {
  auto* command = tokenizer.add_subcommand("show", "Show what a tokenizer is");
  command->footer("Example:\n  cohort tokenizer show --tokenizer data/tokenizer.json");
  const auto options = std::make_shared<ShowOptions>();
  add_tokenizer_choice(*command, options->tokenizer);
  command->callback([&action, options] { action = [options] { return show(*options); }; });
}

void add_tokenizer_export(CLI::App& tokenizer, Action& action) {
  auto* command = tokenizer.add_subcommand("export", "Write a BPE tokenizer in the files that other programs read");
  command->footer(
      "Examples:\n"
      "  cohort tokenizer export --tokenizer data/stories.h5 --format json --out data/own.json\n"
      "  cohort tokenizer export --tokenizer data/tokenizer.json --format tiktoken --out data/own.tiktoken\n"
      "  cohort tokenizer export --tokenizer data/tokenizer.json --format vocab --out data/own");
  const auto options = std::make_shared<ShowOptions>();
  add_tokenizer_choice(*command, options->tokenizer);
  command
      ->add_option("--format", options->format,
                   "json: tokenizer.json of Hugging Face; vocab: vocab.json and merges.txt; tiktoken: a rank file")
      ->required()
      ->check(CLI::IsMember({"json", "vocab", "tiktoken"}));
  command->add_option("--out", options->out, "The file to write; with vocab the folder")->required();
  add_overwrite_option(*command, options->overwrite, "what is there");
  command->callback([&action, options] { action = [options] { return export_tokenizer(*options); }; });
}

}  // namespace cohort
