#include "data/token_file.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "data/id_bytes.hpp"
#include "data/token_format.hpp"

namespace cohort {
namespace {

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

namespace {

// Most people meet this first: they have no data yet.
hdf5::File open_token_file(const std::string& path) {
  std::error_code error;  // what cannot be looked at for another reason is File::open()'s to report
  if (std::filesystem::status(path, error).type() != std::filesystem::file_type::not_found)
    return hdf5::File::open(path, ExitCode::data);
  const bool is_demo = std::filesystem::path(path).filename() == "stories.h5";
  fail(ExitCode::io, "{}: no such token file; {} writes it", path,
       is_demo ? "`make stories`" : fmt::format("`cohort data prepare --input TEXT --out {}`", path));
}

}  // namespace

TokenFile::TokenFile(const std::string& path) : path_(path), file_(open_token_file(path)) {
  check_format();
  read_facts();
  for (const Split split : {Split::train, Split::validation}) {
    open_split(split);
    open_documents(split);
    open_counted(split);
  }
}

void TokenFile::check_format() {
  if (!file_.has_attribute("format") || file_.string_attribute("format") != token_format::kFormat) {
    fail(ExitCode::data, "{}: an HDF5 file, but not a token file; make one with: cohort data prepare", path_);
  }
  version_ = file_.int_attribute("version");
  if (version_ < token_format::kOldestVersion || version_ > token_format::kVersion) {
    fail(ExitCode::data, "{}: token file version {}, this program reads versions {} to {}; prepare the text again", path_,
         version_, token_format::kOldestVersion, token_format::kVersion);
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
  const hdf5::Dataset dataset = file_.open_dataset(std::string(name_of(split)));
  const hdf5::Element element = token_format::element_for(vocabulary_size());
  if (dataset.element() != element) {
    fail(ExitCode::data, "{}: {} holds {}, a vocabulary of {} is stored as {}", path_, dataset.name(),
         hdf5::name_of(dataset.element()), vocabulary_size(), hdf5::name_of(element));
  }
  if (dataset.shape().size() != 1)
    fail(ExitCode::data, "{}: {} has {} dims instead of 1", path_, dataset.name(), dataset.shape().size());
  if (dataset.elements() < token_format::kSmallestSplit) {
    fail(ExitCode::data, "{}: {} has {}, but at least {} are needed; prepare more text", path_, dataset.name(),
         counted(dataset.elements(), "token"), token_format::kSmallestSplit);
  }
  blocks_[static_cast<std::size_t>(split)] =
      open_blocks(dataset, std::string(name_of(split)), crc32_[static_cast<std::size_t>(split)]);
  token_bytes_ = hdf5::size_of(element);
}

void TokenFile::open_counted(Split split) {
  if (version_ <= token_format::kVersionWithoutMask) return;
  chat_template_ = file_.string_attribute("chat_template");
  const std::string name = token_format::counted_of(name_of(split));
  const hdf5::Dataset dataset = file_.open_dataset(name);
  if (dataset.element() != hdf5::Element::u8 || dataset.elements() != tokens(split) || chat_template_.empty()) {
    fail(ExitCode::data, "{}: {} has {} elements of type {}, which is not a byte for each of {} tokens; prepare the text again",
         path_, dataset.name(), dataset.elements(), hdf5::name_of(dataset.element()), tokens(split));
  }
  counted_[static_cast<std::size_t>(split)] = open_blocks(dataset, name, counted_crc32_[static_cast<std::size_t>(split)]);
}

std::unique_ptr<TokenBlocks> TokenFile::open_blocks(const hdf5::Dataset& dataset, const std::string& name,
                                                    std::uint32_t& crc32) const {
  dataset.check_stored();
  const std::optional<Bytes> offset = dataset.offset();
  if (!offset) {
    fail(ExitCode::data, "{}: {} is chunked or compressed; make it contiguous with: h5repack -f NONE -l CONTI {} NEW.h5", path_,
         dataset.name(), path_);
  }
  const std::int64_t crc = dataset.int_attribute("crc32");
  if (crc < 0 || crc > std::int64_t{0xFFFFFFFF})
    fail(ExitCode::data, "{}: {} has an impossible checksum {}", path_, dataset.name(), crc);
  crc32 = static_cast<std::uint32_t>(crc);
  TokenExtent extent{.name = fmt::format("{}: {}", path_, dataset.name()),
                     .descriptor = file_.descriptor(),
                     .offset = *offset,
                     .tokens = dataset.elements(),
                     .token_bytes = hdf5::size_of(dataset.element()),
                     .block_tokens = dataset.elements(),
                     .crc32 = {crc32}};
  if (version_ > 1) extent.crc32 = read_checksums(name, extent.tokens, extent.block_tokens);
  return std::make_unique<TokenBlocks>(std::move(extent));
}

std::vector<std::uint32_t> TokenFile::read_checksums(const std::string& name, Count tokens, Count& block_tokens) const {
  const hdf5::Dataset dataset = file_.open_dataset(token_format::checksums_of(name));
  dataset.check_stored();
  block_tokens = dataset.int_attribute("block_tokens");
  if (block_tokens < 1 || dataset.elements() != (tokens - 1) / block_tokens + 1) {
    fail(ExitCode::data,
         "{}: {} has {} checksums of blocks of {} tokens for {} tokens: the file is damaged; prepare the text again", path_,
         dataset.name(), dataset.elements(), block_tokens, tokens);
  }
  std::vector<std::uint32_t> checksums(static_cast<std::size_t>(dataset.elements()));
  dataset.read<std::uint32_t>(checksums);
  if (dataset.int_attribute("crc32") != std::int64_t{extend_crc32(0, checksums.data(), checksums.size() * 4)}) {
    fail(ExitCode::data, "{}: {}: checksum mismatch: the file is damaged; copy it again, or prepare the text again", path_,
         dataset.name());
  }
  return checksums;
}

void TokenFile::open_documents(Split split) {
  const std::string name = token_format::documents_of(name_of(split));
  if (!file_.has_dataset(name)) return;
  const hdf5::Dataset dataset = file_.open_dataset(name);
  if (dataset.element() != hdf5::Element::u64 || dataset.shape().size() != 1 || dataset.elements() < 2)
    fail(ExitCode::data, "{}: {} is not a list of 64-bit offsets", path_, dataset.name());
  dataset.check_stored();
  Count& documents = documents_[static_cast<std::size_t>(split)];
  documents = dataset.elements() - 1;
  std::array<std::uint64_t, 1> first{}, end{};
  read_documents(split, 0, first);
  read_documents(split, documents, end);
  if (first[0] != 0 || end[0] != static_cast<std::uint64_t>(tokens(split))) {
    fail(ExitCode::data, "{}: {} says that documents reach from token {} to {}, but /{} has {} tokens; prepare the text again",
         path_, dataset.name(), first[0], end[0], name_of(split), tokens(split));
  }
}

void TokenFile::read_documents(Split split, Count first, std::span<std::uint64_t> starts) const {
  const hdf5::Dataset dataset = file_.open_dataset(token_format::documents_of(name_of(split)));
  dataset.read_range(first, static_cast<Count>(starts.size()), starts.data(), hdf5::Element::u64);
}

void TokenFile::verify_documents(Split split) const {
  const Count entries = documents(split) + 1;
  if (entries == 1) return;
  std::vector<std::uint64_t> starts;
  std::uint64_t before = 0;
  std::uint32_t crc = 0;
  for (Count first = 0; first < entries; first += static_cast<Count>(starts.size())) {
    starts.resize(static_cast<std::size_t>(std::min(token_format::kBlock, entries - first)));
    read_documents(split, first, starts);
    crc = extend_crc32(crc, starts.data(), starts.size() * sizeof(std::uint64_t));
    for (std::size_t i = first == 0 ? 1 : 0; i < starts.size(); before = starts[i++]) {
      if (starts[i] > before) continue;
      fail(ExitCode::data, "{}: /documents/{}: entry {} is {}, not behind {}; prepare the text again", path_, name_of(split),
           first + static_cast<Count>(i), starts[i], before);
    }
  }
  const std::int64_t stored = file_.open_dataset(token_format::documents_of(name_of(split))).int_attribute("crc32");
  if (stored != std::int64_t{crc})
    fail(ExitCode::data, "{}: /documents/{}: checksum mismatch: the file is damaged; prepare the text again", path_,
         name_of(split));
}

Count TokenFile::tokens(Split split) const { return blocks(split).extent().tokens; }

void TokenFile::widen(Split split, Count begin, std::span<const std::uint8_t> raw, std::span<std::int32_t> ids) const {
  load_ids(raw.data(), token_bytes_, ids);
  const auto outside = [&](std::int32_t id) { return id < 0 || id >= vocabulary_size(); };
  const auto wrong = std::find_if(ids.begin(), ids.end(), outside);
  if (wrong == ids.end()) return;
  fail(ExitCode::data,
       "{}: /{}: the token at offset {} is {}, outside the vocabulary of {}: the file is damaged; prepare the text again", path_,
       name_of(split), begin + (wrong - ids.begin()), static_cast<std::uint32_t>(*wrong), vocabulary_size());
}

void TokenFile::check_range(Split split, Count begin, Count count) const {
  if (begin < 0 || begin > tokens(split) || count > tokens(split) - begin) {
    fail(ExitCode::data, "{}: /{}: tokens {} to {} were asked for, it has {}", path_, name_of(split), begin, begin + count,
         tokens(split));
  }
}

void TokenFile::read(Split split, Count begin, std::span<std::int32_t> ids) const {
  const auto count = static_cast<Count>(ids.size());
  check_range(split, begin, count);
  raw_.resize(static_cast<std::size_t>(count * token_bytes_));
  blocks(split).read(begin, count, raw_.data());
  widen(split, begin, raw_, ids);
}

void TokenFile::read_counted(Split split, Count begin, std::span<std::uint8_t> counted) const {
  const auto& blocks = counted_[static_cast<std::size_t>(split)];
  COHORT_CHECK(blocks != nullptr, "{}: all tokens count", path_);
  check_range(split, begin, static_cast<Count>(counted.size()));
  blocks->read(begin, static_cast<Count>(counted.size()), counted.data());
}

void TokenFile::verify(const std::function<void(Split, std::span<const std::int32_t>)>& piece) const {
  for (const Split split : {Split::train, Split::validation}) {
    verify_split(split, piece);
    verify_documents(split);
    verify_counted(split);
  }
}

void TokenFile::verify_split(Split split, const std::function<void(Split, std::span<const std::int32_t>)>& piece) const {
  std::vector<std::int32_t> ids;
  std::uint32_t crc = 0;
  blocks(split).verify([&](Count begin, std::span<const std::uint8_t> raw) {
    ids.resize(raw.size() / static_cast<std::size_t>(token_bytes_));
    widen(split, begin, raw, ids);
    crc = extend_crc32(crc, raw.data(), raw.size());
    if (piece) piece(split, ids);
  });
  require_crc32(std::string(name_of(split)), crc, crc32(split));
}

void TokenFile::verify_counted(Split split) const {
  const auto& blocks = counted_[static_cast<std::size_t>(split)];
  if (blocks == nullptr) return;
  const std::string name = token_format::counted_of(name_of(split));
  std::uint32_t crc = 0;
  blocks->verify([&](Count begin, std::span<const std::uint8_t> counted) {
    const auto wrong = std::find_if(counted.begin(), counted.end(), [](std::uint8_t counts) { return counts > 1; });
    if (wrong != counted.end()) {
      fail(ExitCode::data, "{}: /{}: entry {} is {}, neither 0 nor 1; prepare the text again", path_, name,
           begin + (wrong - counted.begin()), *wrong);
    }
    crc = extend_crc32(crc, counted.data(), counted.size());
  });
  require_crc32(name, crc, counted_crc32(split));
}

void TokenFile::require_crc32(const std::string& name, std::uint32_t computed, std::uint32_t stored) const {
  if (computed == stored) return;
  fail(ExitCode::data, "{}: /{}: checksum mismatch ({:08x} computed, {:08x} stored): the file is damaged; prepare the text again",
       path_, name, computed, stored);
}

bool TokenFile::verify_within(Bytes bytes) const {
  bool all = true;
  for (const Split split : {Split::validation, Split::train}) {
    all = blocks(split).verify_within(bytes) && all;
    if (const auto& counted = counted_[static_cast<std::size_t>(split)]) all = counted->verify_within(bytes) && all;
  }
  return all;
}

}  // namespace cohort
