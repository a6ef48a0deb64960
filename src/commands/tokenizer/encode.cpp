// `cohort tokenizer encode` and `decode`: text to token ids and back.
#include <charconv>
#include <cstdio>

#include "base/error.hpp"
#include "base/file.hpp"
#include "commands/tokenizer/tokenizer_commands.hpp"
#include "data/utf8.hpp"

namespace cohort {
namespace {

struct EncodeOptions {
  TokenizerChoice tokenizer;
  std::string text;
  std::string file;
  bool special = false;
  bool pieces = false;
};

// The text of the command line, or of a file.
std::string given(const CLI::App& command, const std::string& text, const std::string& file) {
  const bool has_text = command.get_option("text")->count() > 0;
  if (has_text == !file.empty()) fail(ExitCode::usage, "give either a text or --file");
  return has_text ? text : read_file(file, "text");
}

int encode(const CLI::App& command, const EncodeOptions& options) {
  const std::string text = given(command, options.text, options.file);
  const std::unique_ptr<Tokenizer> tokenizer = options.tokenizer.open();
  const std::string source = options.file.empty() ? "text" : options.file;
  const std::vector<std::int32_t> ids =
      options.special ? tokenizer->encode_with_special(text, source) : tokenizer->encode(text, source);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (options.pieces) {
      fmt::print("{:>8}  '{}'\n", ids[i], printable(tokenizer->text_of(ids[i])));
    } else {
      fmt::print("{}{}", i == 0 ? "" : " ", ids[i]);
    }
  }
  if (!options.pieces) fmt::print("\n");
  return 0;
}

std::vector<std::int32_t> parse_ids(std::string_view text, const std::string& source) {
  std::vector<std::int32_t> ids;
  for (std::size_t at = 0; (at = text.find_first_not_of(" \t\r\n,[]", at)) != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(" \t\r\n,[]", at), text.size());
    std::int32_t id = 0;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, id);
    if (error != std::errc{} || stop != text.data() + end)
      fail(ExitCode::data, "{}: at byte {}: '{}' is not a token id", source, at,
           printable(text.substr(at, std::min<std::size_t>(end - at, 40))));
    ids.push_back(id);
    at = end;
  }
  return ids;
}

int decode(const CLI::App& command, const EncodeOptions& options) {
  const std::string source = options.file.empty() ? "ids" : options.file;
  const std::vector<std::int32_t> ids = parse_ids(given(command, options.text, options.file), source);
  fmt::print("{}", options.tokenizer.open()->decode(ids));
  return 0;
}

}  // namespace

void add_tokenizer_encode(CLI::App& tokenizer, Action& action) {
  auto* command = tokenizer.add_subcommand("encode", "Print the token ids of a text");
  command->footer(
      "Examples:\n"
      "  cohort tokenizer encode --tokenizer data/tokenizer.json \"Once upon a time\"\n"
      "  cohort tokenizer encode --tokenizer data/tokenizer.json --file data/stories.txt > ids.txt");
  const auto options = std::make_shared<EncodeOptions>();
  command->add_option("text", options->text, "The text");
  command->add_option("--file", options->file, "A file with the text, byte by byte as it is");
  add_tokenizer_choice(*command, options->tokenizer);
  command->add_flag("--special", options->special,
                    "What spells a special token, as <|endoftext|>, is one; else it is text like any other");
  command->add_flag("--pieces", options->pieces, "A token a line, with its text");
  command->callback([&action, options, command] { action = [options, command] { return encode(*command, *options); }; });
}

void add_tokenizer_decode(CLI::App& tokenizer, Action& action) {
  auto* command = tokenizer.add_subcommand("decode", "Print the text of token ids");
  command->footer("Example:\n  cohort tokenizer decode --tokenizer data/tokenizer.json \"46 78 70\"");
  const auto options = std::make_shared<EncodeOptions>();
  command->add_option("text", options->text, "Ids, with spaces or commas between them");
  command->add_option("--file", options->file, "A file with ids");
  add_tokenizer_choice(*command, options->tokenizer);
  command->callback([&action, options, command] { action = [options, command] { return decode(*command, *options); }; });
}

}  // namespace cohort
