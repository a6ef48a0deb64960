// `cohort data inspect`: checks a token file and shows what is in it. One process, no MPI.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "commands/common/numbers.hpp"
#include "commands/common/work_progress.hpp"
#include "commands/data/data.hpp"
#include "data/token_file.hpp"
#include "data/token_statistics.hpp"
#include "data/utf8.hpp"

namespace cohort {
namespace {

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

TokenStatistics verify_and_look(const TokenFile& file) {
  WorkProgress progress("verifying");
  return statistics_of(file, [&](double share) { progress.show(share); });
}

// The tokens that occur, the most frequent first.
std::vector<TokenCount> by_frequency(const std::vector<Count>& counts) {
  std::vector<TokenCount> tokens;
  for (std::size_t id = 0; id < counts.size(); ++id) {
    if (counts[id] > 0) tokens.push_back({static_cast<std::int32_t>(id), counts[id]});
  }
  std::stable_sort(tokens.begin(), tokens.end(), [](const TokenCount& a, const TokenCount& b) { return a.count > b.count; });
  return tokens;
}

struct Excerpt {
  Count offset;                      // tokens from the start of /train
  std::string text;                  // printable; of conversations, with what counts as targets between marks
  std::vector<std::string> targets;  // printable; each run of tokens that counts
};

// Of conversations.
constexpr const char* kTargetBegins = "[[";
constexpr const char* kTargetEnds = "]]";

Excerpt excerpt_at(const TokenFile& file, Count offset) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(std::min(kExcerptTokens, file.tokens(Split::train) - offset)));
  file.read(Split::train, offset, ids);
  if (file.chat_template().empty()) return {offset, printable(file.tokenizer().decode(ids)), {}};
  std::vector<std::uint8_t> counted(ids.size());
  file.read_counted(Split::train, offset, counted);
  Excerpt excerpt{offset, "", {}};
  for (std::size_t begin = 0, end = 0; begin < ids.size(); begin = end) {
    while (end < ids.size() && counted[end] == counted[begin]) ++end;
    const std::string text = printable(file.tokenizer().decode(std::span(ids).subspan(begin, end - begin)));
    if (counted[begin] != 0) excerpt.targets.push_back(text);
    excerpt.text += counted[begin] != 0 ? kTargetBegins + text + kTargetEnds : text;
  }
  return excerpt;
}

// Evenly spaced over the training split, the first at its start.
std::vector<Excerpt> excerpts_of(const TokenFile& file, Count samples) {
  std::vector<Excerpt> excerpts;
  const Count tokens = file.tokens(Split::train);
  for (Count i = 0; i < std::min(samples, tokens); ++i) {
    // tokens * i could exceed 64 bits.
    const auto offset = static_cast<Count>(static_cast<double>(tokens) * (static_cast<double>(i) / static_cast<double>(samples)));
    excerpts.push_back(excerpt_at(file, offset));
  }
  return excerpts;
}

using Json = nlohmann::ordered_json;

Json json_of(const DocumentLengths& documents) {
  Json json{{"count", documents.documents}};
  if (documents.documents == 0) return json;
  json["shortest"] = documents.shortest;
  json["longest"] = documents.longest;
  json["mean"] = static_cast<double>(documents.tokens) / static_cast<double>(documents.documents);
  json["histogram"] = Json::array();
  for (std::size_t i = 0; i < documents.by_size.size(); ++i) {
    if (documents.by_size[i] > 0)
      json["histogram"].push_back({{"from", Count{1} << i}, {"to", (Count{2} << i) - 1}, {"documents", documents.by_size[i]}});
  }
  return json;
}

Json json_of(const BadTokens& bad) {
  Json json{{"count", bad.count}};
  if (bad.first) json["first"] = {{"split", name_of(bad.first->split)}, {"token", bad.first->token}};
  return json;
}

void print_json(const TokenFile& file, const TokenStatistics& statistics, const std::vector<TokenCount>& tokens,
                const std::vector<Excerpt>& excerpts) {
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
  if (!file.chat_template().empty()) {
    json["chat_template"] = file.chat_template();
    json["train_targets"] = statistics.counted[0];
    json["validation_targets"] = statistics.counted[1];
  }
  json["sources"] = Json::array();
  for (const TokenSource& source : file.sources()) json["sources"].push_back({{"file", source.file}, {"bytes", source.bytes}});
  json["documents"] = json_of(statistics.documents);
  json["bytes_not_utf8"] = json_of(statistics.not_utf8);
  json["tokens_without_text"] = json_of(statistics.without_text);
  json["different_tokens"] = tokens.size();
  json["most_frequent"] = Json::array();
  for (std::size_t i = 0; i < std::min(kMostFrequent, tokens.size()); ++i) {
    const std::string text = printable(file.tokenizer().text_of(tokens[i].id));
    json["most_frequent"].push_back({{"id", tokens[i].id}, {"text", text}, {"count", tokens[i].count}});
  }
  json["samples"] = Json::array();
  for (const Excerpt& excerpt : excerpts) {
    json["samples"].push_back({{"offset", excerpt.offset}, {"text", excerpt.text}});
    if (!file.chat_template().empty()) json["samples"].back()["targets"] = excerpt.targets;
  }
  // A path may hold bytes that are no UTF-8.
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

void print_documents(const DocumentLengths& documents) {
  if (documents.documents == 0) return;
  fmt::print("\n{}: {} to {} tokens, {:.1f} on average\n\n", counted(documents.documents, "document"), documents.shortest,
             documents.longest, static_cast<double>(documents.tokens) / static_cast<double>(documents.documents));
  Table lengths({"tokens", "documents", "share"});
  for (std::size_t i = 0; i < documents.by_size.size(); ++i) {
    const Count count = documents.by_size[i];
    if (count > 0)
      lengths.add({i == 0 ? "1" : fmt::format("{} to {}", Count{1} << i, (Count{2} << i) - 1), std::to_string(count),
                   fmt::format("{:.2f}%", 100.0 * static_cast<double>(count) / static_cast<double>(documents.documents))});
  }
  fmt::print("{}", lengths.str());
}

void print_bad(const BadTokens& bad, std::string_view one, std::string_view many) {
  if (bad.count == 0) return;
  fmt::print("\n{}; the first: /{}, token {}\n", counted(bad.count, one, many), name_of(bad.first->split), bad.first->token);
}

void print_text(const TokenFile& file, const TokenStatistics& statistics, const std::vector<TokenCount>& tokens,
                const std::vector<Excerpt>& excerpts) {
  fmt::print("{}: token file, {} tokenizer, vocabulary of {} ({} of them occur), {} bytes per token\n", file.path(),
             file.tokenizer().kind(), file.vocabulary_size(), tokens.size(), file.token_bytes());
  Table splits({"split", "tokens", "crc32"});
  for (const Split split : {Split::train, Split::validation}) {
    splits.add(
        {std::string(name_of(split)), std::to_string(file.tokens(split)), fmt::format("{:08x}, verified", file.crc32(split))});
  }
  fmt::print("\n{}", splits.str());
  constexpr std::size_t kSources = 20;
  fmt::print("\nsources:\n");
  for (std::size_t i = 0; i < std::min(file.sources().size(), kSources); ++i)
    fmt::print("  {}, {}\n", file.sources()[i].file, human_bytes(file.sources()[i].bytes));
  if (file.sources().size() > kSources) fmt::print("  and {} more\n", file.sources().size() - kSources);
  if (!file.chat_template().empty()) {
    fmt::print("\nconversations by the template {}: {} tokens of /train and {} of /validation count as targets\n",
               file.chat_template(), statistics.counted[0], statistics.counted[1]);
  }
  print_documents(statistics.documents);
  print_bad(statistics.not_utf8, "byte of the decoded text is no UTF-8", "bytes of the decoded text are no UTF-8");
  print_bad(statistics.without_text, "token has an id without text", "tokens have ids without text");
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
  for (const Excerpt& excerpt : excerpts) fmt::print("\ntrain, from token {}:\n  {}\n", excerpt.offset, excerpt.text);
}

int run_inspect(const InspectOptions& options) {
  if (options.samples < 0) fail(ExitCode::usage, "--samples is {}; it must be at least 0", options.samples);
  const TokenFile file(options.file);
  const TokenStatistics statistics = verify_and_look(file);
  const std::vector<TokenCount> tokens = by_frequency(statistics.counts);
  const std::vector<Excerpt> excerpts = excerpts_of(file, options.samples);
  if (options.json) {
    print_json(file, statistics, tokens, excerpts);
  } else {
    print_text(file, statistics, tokens, excerpts);
  }
  return 0;
}

}  // namespace

void add_data_inspect(CLI::App& data, Action& action) {
  auto* inspect = data.add_subcommand("inspect", "Check a token file and show what is in it");
  const auto options = std::make_shared<InspectOptions>();
  inspect->add_option("file", options->file, "Token file")->required();
  inspect->add_option("--samples", options->samples, "Number of text samples to show")->capture_default_str();
  inspect->add_flag("--json", options->json, "Print JSON");
  inspect->callback([&action, options] { action = [options] { return run_inspect(*options); }; });
}

}  // namespace cohort
