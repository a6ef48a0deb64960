#include "data/token_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "data/token_format.hpp"

namespace cohort {
namespace {

constexpr Count kVerifyBlock = 1 << 19;  // tokens: 1 to 2 MiB at a time

// A JSON list of {"file", "bytes"}; nothing if it is not that.
std::optional<std::vector<TokenSource>> parse_sources(const std::string& text) {
  const auto list = nlohmann::json::parse(text, nullptr, false);
  if (!list.is_array()) return std::nullopt;
  std::vector<TokenSource> sources;
  for (const nlohmann::json& item : list) {
    if (!item.is_object() || !item.contains("file") || !item["file"].is_string() || !item.contains("bytes") ||
        !item["bytes"].is_number_integer()) {
      return std::nullopt;
    }
    sources.push_back({item["file"].get<std::string>(), item["bytes"].get<Bytes>()});
  }
  return sources;
}

}  // namespace

std::string_view name_of(Split split) { return split == Split::train ? "train" : "validation"; }

TokenFile::TokenFile(const std::string& path) : path_(path), file_(hdf5::File::open(path, ExitCode::data)) {
  check_format();
  read_facts();
  for (const Split split : {Split::train, Split::validation}) open_split(split);
}

void TokenFile::check_format() {
  if (!file_.has_attribute("format") || file_.string_attribute("format") != token_format::kFormat) {
    fail(ExitCode::data, "{}: an HDF5 file, but not a token file; make one with: cohort data prepare", path_);
  }
  const Count version = file_.int_attribute("version");
  if (version != token_format::kVersion) {
    fail(ExitCode::data, "{}: token file version {}, this program reads version {}; prepare the text again", path_, version,
         token_format::kVersion);
  }
}

void TokenFile::read_facts() {
  const std::string serialised = file_.read_text("tokenizer");
  if (file_.int_attribute("tokenizer_crc32") != std::int64_t{extend_crc32(0, serialised.data(), serialised.size())}) {
    fail(ExitCode::data, "{}: /tokenizer: checksum mismatch: the file is damaged; prepare the text again", path_);
  }
  tokenizer_ = read_tokenizer(serialised, path_);
  if (file_.int_attribute("vocabulary_size") != tokenizer_->vocabulary_size() ||
      file_.string_attribute("tokenizer") != tokenizer_->kind()) {
    fail(ExitCode::data, "{}: its attributes name a {} tokenizer of {} tokens, its tokenizer is {} with {}", path_,
         file_.string_attribute("tokenizer"), file_.int_attribute("vocabulary_size"), tokenizer_->kind(),
         tokenizer_->vocabulary_size());
  }
  const auto sources = parse_sources(file_.read_text("sources"));
  if (!sources) fail(ExitCode::data, "{}: /sources: damaged; prepare the text again", path_);
  sources_ = *sources;
  if (file_.has_attribute("entropy_nats_per_token")) {
    entropy_ = {file_.double_attribute("entropy_nats_per_token"), file_.double_attribute("empirical_nats_per_token")};
    if (!std::isfinite(entropy_->exact) || !std::isfinite(entropy_->empirical))
      fail(ExitCode::data, "{}: its entropy is not a number", path_);
  }
}

void TokenFile::open_split(Split split) {
  auto& dataset = datasets_[static_cast<std::size_t>(split)];
  dataset = file_.open_dataset(std::string(name_of(split)));
  const hdf5::Element element = token_format::element_for(vocabulary_size());
  if (dataset->element() != element) {
    fail(ExitCode::data, "{}: {} holds {}, a vocabulary of {} is stored as {}", path_, dataset->name(),
         hdf5::name_of(dataset->element()), vocabulary_size(), hdf5::name_of(element));
  }
  if (dataset->shape().size() != 1)
    fail(ExitCode::data, "{}: {} has {} dims instead of 1", path_, dataset->name(), dataset->shape().size());
  if (dataset->elements() < token_format::kSmallestSplit) {
    fail(ExitCode::data, "{}: {} has {} tokens, at least {} are needed; prepare more text", path_, dataset->name(),
         dataset->elements(), token_format::kSmallestSplit);
  }
  dataset->check_stored();
  const std::int64_t crc = dataset->int_attribute("crc32");
  if (crc < 0 || crc > std::int64_t{0xFFFFFFFF})
    fail(ExitCode::data, "{}: {} has an impossible checksum {}", path_, dataset->name(), crc);
  crc32_[static_cast<std::size_t>(split)] = static_cast<std::uint32_t>(crc);
  token_bytes_ = hdf5::size_of(element);
}

Count TokenFile::tokens(Split split) const { return dataset(split).elements(); }

void TokenFile::read_raw(Split split, Count begin, Count count, std::vector<std::uint8_t>& raw) const {
  if (begin < 0 || count < 0 || begin > tokens(split) || count > tokens(split) - begin) {
    fail(ExitCode::data, "{}: /{}: tokens {} to {} were asked for, it has {}", path_, name_of(split), begin, begin + count,
         tokens(split));
  }
  raw.resize(static_cast<std::size_t>(count * token_bytes_));
  dataset(split).read_block(std::array<Count, 1>{begin}, std::array<Count, 1>{count}, raw.data(), dataset(split).element());
}

void TokenFile::widen(Split split, Count begin, const std::vector<std::uint8_t>& raw, std::span<std::int32_t> ids) const {
  const auto vocabulary = static_cast<std::uint32_t>(vocabulary_size());
  const auto width = static_cast<std::size_t>(token_bytes_);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::uint32_t id = 0;
    std::memcpy(&id, raw.data() + i * width, width);
    if (id >= vocabulary) {
      fail(ExitCode::data,
           "{}: /{}: the token at offset {} is {}, outside of the vocabulary of {}: the file is damaged; prepare the text again",
           path_, name_of(split), begin + static_cast<Count>(i), id, vocabulary);
    }
    ids[i] = static_cast<std::int32_t>(id);
  }
}

void TokenFile::read(Split split, Count begin, std::span<std::int32_t> ids) const {
  read_raw(split, begin, static_cast<Count>(ids.size()), raw_);
  widen(split, begin, raw_, ids);
}

void TokenFile::verify(const std::function<void(Split, std::span<const std::int32_t>)>& block) const {
  for (const Split split : {Split::train, Split::validation}) verify_split(split, block);
}

void TokenFile::verify_split(Split split, const std::function<void(Split, std::span<const std::int32_t>)>& block) const {
  std::vector<std::uint8_t> raw;
  std::vector<std::int32_t> ids;
  std::uint32_t crc = 0;
  for (Count begin = 0; begin < tokens(split);) {
    const Count count = std::min(kVerifyBlock, tokens(split) - begin);
    read_raw(split, begin, count, raw);
    ids.resize(static_cast<std::size_t>(count));
    widen(split, begin, raw, ids);
    crc = extend_crc32(crc, raw.data(), raw.size());
    if (block) block(split, ids);
    begin += count;
  }
  if (crc != crc32(split)) {
    fail(ExitCode::data,
         "{}: /{}: checksum mismatch ({:08x} computed, {:08x} stored): the file is damaged; prepare the text again", path_,
         name_of(split), crc, crc32(split));
  }
}

}  // namespace cohort
