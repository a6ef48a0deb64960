#include "train/data_record.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "base/checksum.hpp"
#include "base/text.hpp"

namespace cohort {
namespace {

constexpr std::string_view kSplits = " train=", kTokenizer = " tokenizer=";

struct Record {
  std::string content;    // what is compared; of a token file without its name
  std::string tokenizer;  // "" = not recorded
};

// A file's name may hold anything, so the parts are looked for from the end.
Record parse_record(const std::string& text) {
  const std::size_t splits = text.rfind(kSplits);
  if (splits == std::string::npos) return {text, ""};
  const std::size_t tokenizer = text.find(kTokenizer, splits);
  if (tokenizer == std::string::npos) return {text.substr(splits), ""};
  return {text.substr(splits, tokenizer - splits), text.substr(tokenizer + kTokenizer.size())};
}

}  // namespace

std::string record_of(const TokenFile& file) {
  const std::string tokenizer = file.tokenizer().serialise();
  return fmt::format("{} train={} crc32={:08x} validation={} crc32={:08x} tokenizer={} vocabulary={} crc32={:08x}",
                     std::filesystem::path(file.path()).filename().string(), file.tokens(Split::train), file.crc32(Split::train),
                     file.tokens(Split::validation), file.crc32(Split::validation), file.tokenizer().kind(),
                     file.vocabulary_size(), crc32_of(tokenizer.data(), static_cast<Bytes>(tokenizer.size())));
}

std::string tokenizer_of_record(const std::string& record) { return join(split(parse_record(record).tokenizer, ' ')); }

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
