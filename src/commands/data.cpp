// `cohort data`: make a synthetic corpus, turn texts into a token file, look into a token file. One process, no MPI.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/common/numbers.hpp"
#include "commands/common/output_file.hpp"
#include "commands/common/work_progress.hpp"
#include "data/prepare.hpp"
#include "data/synth_stories.hpp"
#include "data/token_file.hpp"
#include "data/tokenizer_kind.hpp"
#include "data/utf8.hpp"

namespace cohort {
namespace {

std::string tokenizer_help() {
  std::string help;
  for (const TokenizerKind* kind : all_tokenizer_kinds()) help += fmt::format("{}: {}; ", kind->name, kind->help);
  return help;
}

// ---- synth
// --------------------------------------------------------------------------------------------------------------------------

struct SynthOptions {
  std::string out;
  std::optional<std::string> bytes;
  Count stories = 0;
  bool by_stories = false;  // --stories was given, with whatever value
  std::uint64_t seed = 1;
  bool overwrite = false;
};

int run_synth(const SynthOptions& options) {
  if (options.bytes && options.by_stories)
    fail(ExitCode::usage, "--bytes and --stories both set the size of the corpus; give only one");
  const Bytes bytes = options.bytes ? parse_bytes(*options.bytes) : options.by_stories ? 0 : 2 * kMiB;
  if (options.by_stories && options.stories < 1) fail(ExitCode::usage, "--stories is {}; it must be at least 1", options.stories);
  if (options.bytes && bytes < 1) fail(ExitCode::usage, "--bytes is {}; it must be at least 1", *options.bytes);
  const std::string out = output_file("--out", options.out, options.overwrite).string();
  output_file("--out", corpus_facts_path(out), options.overwrite);
  WorkProgress progress("writing stories");
  const CorpusFacts facts =
      write_story_corpus(out, options.seed, options.stories, bytes, [&](double share) { progress.show(share); });
  fmt::print("{}: {}, {} ({} bytes), seed {}\n", options.out, counted(facts.stories, "story", "stories"),
             human_bytes(facts.bytes), facts.bytes, facts.seed);
  fmt::print("entropy: {:.5f} nats per character, exact: no model has a lower mean loss per character on new stories\n",
             facts.entropy_nats_per_character);
  fmt::print("this text: {:.5f} nats per character under its own grammar\n", facts.empirical_nats_per_character);
  fmt::print("next: cohort data prepare --input {} --out FILE.h5 --tokenizer bpe --vocabulary 1024\n", options.out);
  return 0;
}

// ---- prepare
// ------------------------------------------------------------------------------------------------------------------------

int run_prepare(PrepareOptions options, bool overwrite) {
  check_prepare_options(options);
  options.output = output_file("--out", options.output, overwrite).string();
  WorkProgress progress("encoding");
  const Prepared prepared = prepare_tokens(options, [&](double share) { progress.show(share); });
  for (const std::string& note : prepared.notes) fmt::print("note: {}\n", note);
  fmt::print("{}: {} tokenizer, vocabulary of {}; {} tokens for training, the last {} for validation\n", options.output,
             prepared.tokenizer, prepared.vocabulary_size, prepared.train, prepared.validation);
  if (prepared.entropy) fmt::print("known floor of the loss: {:.5f} nats per token\n", prepared.entropy->exact);
  return 0;
}

// ---- inspect
// ------------------------------------------------------------------------------------------------------------------------

constexpr Count kExcerptTokens = 160;
constexpr std::size_t kMostFrequent = 10;

struct InspectOptions {
  std::string file;
  Count samples = 1;
  bool json = false;
};

struct TokenCount {
  std::int32_t id;
  Count count;
};

// Reads the whole file, which also checks it, and returns the tokens that occur, the most frequent first.
std::vector<TokenCount> verify_and_count(const TokenFile& file) {
  WorkProgress progress("verifying");
  const Count total = file.tokens(Split::train) + file.tokens(Split::validation);
  Count done = 0;
  std::vector<Count> counts(static_cast<std::size_t>(file.vocabulary_size()));
  file.verify([&](Split, std::span<const std::int32_t> ids) {
    for (const std::int32_t id : ids) ++counts[static_cast<std::size_t>(id)];
    done += static_cast<Count>(ids.size());
    progress.show(static_cast<double>(done) / static_cast<double>(total));
  });
  std::vector<TokenCount> tokens;
  for (std::size_t id = 0; id < counts.size(); ++id) {
    if (counts[id] > 0) tokens.push_back({static_cast<std::int32_t>(id), counts[id]});
  }
  std::stable_sort(tokens.begin(), tokens.end(), [](const TokenCount& a, const TokenCount& b) { return a.count > b.count; });
  return tokens;
}

struct Excerpt {
  Count offset;  // tokens from the start of /train
  std::string text;
};

// Evenly spaced over the training split, the first at its start.
std::vector<Excerpt> excerpts_of(const TokenFile& file, Count samples) {
  std::vector<Excerpt> excerpts;
  const Count tokens = file.tokens(Split::train);
  for (Count i = 0; i < std::min(samples, tokens); ++i) {
    // tokens * i could exceed 64 bits.
    const auto offset = static_cast<Count>(static_cast<double>(tokens) * (static_cast<double>(i) / static_cast<double>(samples)));
    std::vector<std::int32_t> ids(static_cast<std::size_t>(std::min(kExcerptTokens, tokens - offset)));
    file.read(Split::train, offset, ids);
    excerpts.push_back({offset, file.tokenizer().decode(ids)});
  }
  return excerpts;
}

void print_json(const TokenFile& file, const std::vector<TokenCount>& tokens, const std::vector<Excerpt>& excerpts) {
  using Json = nlohmann::ordered_json;
  Json json{{"file", file.path()},
            {"tokenizer", file.tokenizer().kind()},
            {"vocabulary_size", file.vocabulary_size()},
            {"bytes_per_token", file.token_bytes()},
            {"train_tokens", file.tokens(Split::train)},
            {"validation_tokens", file.tokens(Split::validation)},
            {"train_crc32", file.crc32(Split::train)},
            {"validation_crc32", file.crc32(Split::validation)},
            {"verified", true}};
  if (const auto entropy = file.entropy()) {
    json["entropy_nats_per_token"] = entropy->exact;
    json["empirical_nats_per_token"] = entropy->empirical;
  }
  json["sources"] = Json::array();
  for (const TokenSource& source : file.sources()) json["sources"].push_back({{"file", source.file}, {"bytes", source.bytes}});
  json["different_tokens"] = tokens.size();
  json["most_frequent"] = Json::array();
  for (std::size_t i = 0; i < std::min(kMostFrequent, tokens.size()); ++i) {
    const std::string text = printable(file.tokenizer().text_of(tokens[i].id));
    json["most_frequent"].push_back({{"id", tokens[i].id}, {"text", text}, {"count", tokens[i].count}});
  }
  json["samples"] = Json::array();
  for (const Excerpt& excerpt : excerpts)
    json["samples"].push_back({{"offset", excerpt.offset}, {"text", printable(excerpt.text)}});
  // A path may hold bytes that are no UTF-8.
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

void print_text(const TokenFile& file, const std::vector<TokenCount>& tokens, const std::vector<Excerpt>& excerpts) {
  fmt::print("{}: token file, {} tokenizer, vocabulary of {} ({} of them occur), {} bytes per token\n", file.path(),
             file.tokenizer().kind(), file.vocabulary_size(), tokens.size(), file.token_bytes());
  Table splits({"split", "tokens", "crc32"});
  for (const Split split : {Split::train, Split::validation}) {
    splits.add(
        {std::string(name_of(split)), std::to_string(file.tokens(split)), fmt::format("{:08x}, verified", file.crc32(split))});
  }
  fmt::print("\n{}", splits.str());
  fmt::print("\nsources:\n");
  for (const TokenSource& source : file.sources()) fmt::print("  {}, {}\n", source.file, human_bytes(source.bytes));
  if (const auto entropy = file.entropy()) {
    fmt::print("\nknown floor of the loss: {:.5f} nats per token (this very text: {:.5f})\n", entropy->exact, entropy->empirical);
  }
  Count total = 0;
  for (const TokenCount& token : tokens) total += token.count;
  Table frequent({"most frequent", "id", "count", "share"});
  for (std::size_t i = 0; i < std::min(kMostFrequent, tokens.size()); ++i) {
    frequent.add({fmt::format("'{}'", printable(file.tokenizer().text_of(tokens[i].id))), std::to_string(tokens[i].id),
                  std::to_string(tokens[i].count),
                  fmt::format("{:.2f}%", 100.0 * static_cast<double>(tokens[i].count) / static_cast<double>(total))});
  }
  fmt::print("\n{}", frequent.str());
  for (const Excerpt& excerpt : excerpts) fmt::print("\ntrain, from token {}:\n  {}\n", excerpt.offset, printable(excerpt.text));
}

int run_inspect(const InspectOptions& options) {
  if (options.samples < 0) fail(ExitCode::usage, "--samples is {}; it must be at least 0", options.samples);
  const TokenFile file(options.file);
  const std::vector<TokenCount> tokens = verify_and_count(file);
  const std::vector<Excerpt> excerpts = excerpts_of(file, options.samples);
  if (options.json) {
    print_json(file, tokens, excerpts);
  } else {
    print_text(file, tokens, excerpts);
  }
  return 0;
}

// ---- the command line
// ---------------------------------------------------------------------------------------------------------------

void add_synth(CLI::App& data, Action& action) {
  auto* synth = data.add_subcommand("synth", "Write a synthetic corpus");
  synth->require_subcommand(1);
  auto* stories = synth->add_subcommand("stories", "Simple English stories whose entropy is known exactly");
  const auto options = std::make_shared<SynthOptions>();
  stories->add_option("--out", options->out, "Text file to write; FILE.json next to it holds its entropy")
      ->type_name("FILE")
      ->required();
  stories->add_option("--bytes", options->bytes, "Size, such as 500KiB; the last story is completed [2MiB]");
  const CLI::Option* number = stories->add_option("--stories", options->stories, "Size in stories");
  stories->add_option("--seed", options->seed, "Other seeds give other stories")->capture_default_str();
  add_overwrite_option(*stories, options->overwrite, "the corpus");
  stories->callback([&action, options, number] {
    options->by_stories = number->count() > 0;
    action = [options] { return run_synth(*options); };
  });
}

void add_prepare(CLI::App& data, Action& action) {
  auto* prepare = data.add_subcommand("prepare", "Turn text files into a token file for training");
  const auto options = std::make_shared<PrepareOptions>();
  prepare->add_option("--input", options->inputs, "Text files, joined in this order")->type_name("FILE")->required();
  prepare->add_option("--out", options->output, "Token file to write (HDF5)")->type_name("FILE")->required();
  prepare
      ->add_option("--tokenizer", options->tokenizer,
                   tokenizer_help() +
                       "or a path: a token file, whose models can then read the new one, "
                       "tokenizer.json, or what else `cohort tokenizer show` reads")
      ->capture_default_str();
  prepare->add_option("--vocabulary", options->learning.vocabulary, "With --tokenizer bpe: tokens to learn")
      ->check(integer_from(256, 10'000'000));
  prepare->add_option("--pattern", options->learning.pattern, "With bpe or a rank file: gpt-2, cl100k or a regular expression");
  prepare->add_option("--special-token", options->learning.special, "With bpe or a rank file: a special token (may be repeated)")
      ->allow_extra_args(false);
  prepare->add_option("--validation", options->validation, "Share of the tokens, taken from the end, for validation")
      ->capture_default_str();
  const auto overwrite = std::make_shared<bool>(false);
  add_overwrite_option(*prepare, *overwrite, "the token file");
  prepare->callback([&action, options, overwrite] { action = [=] { return run_prepare(*options, *overwrite); }; });
}

void add_inspect(CLI::App& data, Action& action) {
  auto* inspect = data.add_subcommand("inspect", "Check a token file and show what is in it");
  const auto options = std::make_shared<InspectOptions>();
  inspect->add_option("file", options->file, "Token file")->required();
  inspect->add_option("--samples", options->samples, "Number of text samples to show")->capture_default_str();
  inspect->add_flag("--json", options->json, "Print JSON");
  inspect->callback([&action, options] { action = [options] { return run_inspect(*options); }; });
}

}  // namespace

void add_data_command(CLI::App& app, Action& action) {
  auto* data = app.add_subcommand("data", "Make, prepare and inspect training data");
  data->require_subcommand(1);
  data->footer(
      "Examples:\n"
      "  cohort data synth stories --out stories.txt --bytes 2MiB\n"
      "  cohort data prepare --input stories.txt --out stories.h5 --tokenizer bpe --vocabulary 1024\n"
      "  cohort data inspect stories.h5 --samples 3");
  add_synth(*data, action);
  add_prepare(*data, action);
  add_inspect(*data, action);
}

}  // namespace cohort
