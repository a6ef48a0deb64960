#include "data/prepare.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "data/synth_stories.hpp"
#include "data/tokenizer_kind.hpp"

namespace cohort {
namespace {

constexpr std::size_t kBlock = Tokenizer::kLeastBlock;  // tokens encoded at a time: 4 MiB

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

void note_oddities(const std::string& path, std::string_view text, std::vector<std::string>& notes) {
  const std::size_t crlf = count_of(text, "\r\n");
  const auto bare = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\r')) - crlf;
  if (crlf > 0)
    notes.push_back(
        fmt::format("{}: {} in CRLF (Windows); kept as is", path, counted(static_cast<Count>(crlf), "line ends", "lines end")));
  if (bare > 0)
    notes.push_back(
        fmt::format("{}: {} without a line feed; kept as is", path, counted(static_cast<Count>(bare), "carriage return")));
  if (text.starts_with("\xEF\xBB\xBF")) notes.push_back(fmt::format("{}: starts with a byte order mark; kept as is", path));
}

// Known if every text is an unchanged corpus of one grammar. What a token says is what its characters say, so that the floor for
// a token is the one for a character times the characters of a token.
std::optional<TokenEntropy> entropy_of(const std::vector<std::string>& paths, const std::vector<std::string>& texts,
                                       Count tokens) {
  TokenEntropy entropy;
  double bytes = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto facts = read_corpus_facts(paths[i], texts[i]);
    if (!facts || (i > 0 && facts->entropy_nats_per_character != entropy.exact)) return std::nullopt;
    entropy.exact = facts->entropy_nats_per_character;
    entropy.empirical += facts->empirical_nats_per_character * static_cast<double>(facts->bytes);
    bytes += static_cast<double>(facts->bytes);
  }
  const double characters = bytes / static_cast<double>(tokens);  // of a token: the stories are ASCII
  entropy.exact *= characters;
  entropy.empirical *= characters / bytes;
  return entropy;
}

std::unique_ptr<Tokenizer> make_tokenizer(const PrepareOptions& options, const std::vector<std::string_view>& texts) {
  if (find_tokenizer_kind(options.tokenizer) != nullptr)
    return learn_tokenizer(options.tokenizer, texts, options.inputs, options.learning);
  return open_tokenizer(options.tokenizer, options.learning);
}

}  // namespace

void check_prepare_options(const PrepareOptions& options) {
  if (options.inputs.empty()) fail(ExitCode::usage, "no text files were given; name at least one with --input");
  if (find_tokenizer_kind(options.tokenizer) == nullptr && !std::filesystem::exists(options.tokenizer)) {
    fail(ExitCode::usage,
         "unknown tokenizer '{}'; available: {}, or the path of a token file, tokenizer.json, vocab.json or rank file to use its "
         "vocabulary",
         options.tokenizer, tokenizer_names());
  }
  if (!(options.validation > 0 && options.validation < 1)) {
    fail(ExitCode::usage, "the share of tokens for validation is {}; it must be between 0 and 1, for example 0.1",
         options.validation);
  }
  for (const std::string& input : options.inputs) {
    std::error_code ignored;  // a missing input is reported when it is read
    if (std::filesystem::equivalent(input, options.output, ignored)) {
      fail(ExitCode::usage, "the output '{}' is also an input and would be overwritten; give it another name", options.output);
    }
  }
  if (std::filesystem::is_directory(options.output)) {
    fail(ExitCode::io, "the output '{}' is a folder; name a file in it", options.output);
  }
}

Prepared prepare_tokens(const PrepareOptions& options, const std::function<void(double)>& progress) {
  check_prepare_options(options);
  Prepared prepared;
  std::vector<std::string> texts;
  std::vector<TokenSource> sources;
  Bytes bytes = 0;
  for (const std::string& input : options.inputs) {
    texts.push_back(read_file(input, "text"));
    if (texts.back().empty())
      fail(ExitCode::data, "the text '{}' is empty; leave it out, or check what should have written it", input);
    note_oddities(input, texts.back(), prepared.notes);
    sources.push_back({input, static_cast<Bytes>(texts.back().size())});
    bytes += sources.back().bytes;
  }
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(options, views);
  prepared.tokenizer = tokenizer->kind();

  Count tokens = 0;
  for (const std::string_view text : views) tokens += tokenizer->count(text);
  prepared.validation = static_cast<Count>(std::llround(static_cast<double>(tokens) * options.validation));
  prepared.train = tokens - prepared.validation;
  prepared.vocabulary_size = tokenizer->vocabulary_size();
  prepared.entropy = entropy_of(options.inputs, texts, tokens);

  TokenFileWriter writer(options.output, *tokenizer, prepared.train, prepared.validation, sources, prepared.entropy);
  std::vector<std::int32_t> block(kBlock);
  Bytes before = 0;  // bytes of the texts that are done
  for (std::size_t i = 0; i < texts.size(); ++i) {
    for (std::size_t position = 0; position < texts[i].size();) {
      const Count count = tokenizer->encode_some(texts[i], position, block, options.inputs[i]);
      writer.append(std::span(block).first(static_cast<std::size_t>(count)));
      if (progress) progress(static_cast<double>(before + static_cast<Bytes>(position)) / static_cast<double>(bytes));
    }
    before += sources[i].bytes;
  }
  writer.finish();
  return prepared;
}

}  // namespace cohort
