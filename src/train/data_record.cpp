#include "train/data_record.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "base/checksum.hpp"
#include "base/text.hpp"

namespace cohort {
namespace {

constexpr std::string_view kSplits = " train=", kTokenizer = " tokenizer=", kChat = " chat=";

struct Record {
  std::string content;    // what is compared; of a token file without its name
  std::string tokenizer;  // "" = not recorded
};

// A file's name may hold anything, so the parts are looked for from the end.
Record parse_record(const std::string& text) {
  const std::size_t splits = text.rfind(kSplits);
  if (splits == std::string::npos) {  // not of one file; and names of sources hold no spaces
    const std::size_t end = text.find(kTokenizer);
    return end == std::string::npos ? Record{text, ""} : Record{text.substr(0, end), text.substr(end + kTokenizer.size())};
  }
  const std::size_t tokenizer = text.find(kTokenizer, splits);
  if (tokenizer == std::string::npos) return {text.substr(splits), ""};
  return {text.substr(splits, tokenizer - splits), text.substr(tokenizer + kTokenizer.size())};
}

std::string facts_of(const Tokenizer& tokenizer) {
  const std::string serialised = tokenizer.serialise();
  return fmt::format("{} vocabulary={} crc32={:08x}", tokenizer.kind(), tokenizer.vocabulary_size(),
                     crc32_of(serialised.data(), static_cast<Bytes>(serialised.size())));
}

// Of conversations their template, and which tokens count.
std::string mask_of(const TokenFile& file) {
  if (file.chat_template().empty()) return "";
  return fmt::format(" counted={:08x},{:08x}{}{}", file.counted_crc32(Split::train), file.counted_crc32(Split::validation), kChat,
                     file.chat_template());
}

}  // namespace

std::string record_of(const TokenFile& file) {
  return fmt::format("{} train={} crc32={:08x} validation={} crc32={:08x}{}{}{}",
                     std::filesystem::path(file.path()).filename().string(), file.tokens(Split::train), file.crc32(Split::train),
                     file.tokens(Split::validation), file.crc32(Split::validation), mask_of(file), kTokenizer,
                     facts_of(file.tokenizer()));
}

std::string chat_template_of_record(const std::string& record) {
  const std::string content = parse_record(record).content;
  const std::size_t place = content.rfind(kChat);
  return place == std::string::npos ? "" : content.substr(place + kChat.size());
}

std::string record_of(const std::vector<TokenSourceFile>& sources) {
  std::string record = "mixture", chat;
  for (const auto& [name, file] : sources) {
    for (const Split split : {Split::train, Split::validation})
      record += fmt::format(" {}/{}={} crc32={:08x}", name, name_of(split), file->tokens(split), file->crc32(split));
    if (file->chat_template().empty()) continue;
    record +=
        fmt::format(" {}/counted={:08x},{:08x}", name, file->counted_crc32(Split::train), file->counted_crc32(Split::validation));
    chat = std::string(kChat) + file->chat_template();  // all have the same one
  }
  return record + chat + std::string(kTokenizer) + facts_of(sources.front().file->tokenizer());
}

std::string in_words(const Tokenizer& tokenizer) { return join(split(facts_of(tokenizer), ' ')); }

std::string tokenizer_of_record(const std::string& record) { return join(split(parse_record(record).tokenizer, ' ')); }

std::string tokenizer_of(const TrainingState& state) {
  std::string recorded = tokenizer_of_record(state.data);
  if (!recorded.empty() || state.tokenizer.empty()) return recorded;
  return in_words(*read_tokenizer(state.tokenizer, "the checkpoint"));
}

std::vector<std::string> data_changes(const std::string& saved, const std::string& now) {
  std::vector<std::string> changes;
  if (parse_record(saved).content != parse_record(now).content)
    changes.push_back(fmt::format("data: {} in the checkpoint, {} now", saved, now));
  const std::string before = tokenizer_of_record(saved), after = tokenizer_of_record(now);
  if (!before.empty() && !after.empty() && before != after)
    changes.push_back(fmt::format("tokenizer: {} in the checkpoint, {} now", before, after));
  return changes;
}

}  // namespace cohort
