#include "data/foreign/foreign_tokens.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <limits>

#include "base/error.hpp"
#include "base/text.hpp"
#include "data/foreign/llmc_header.hpp"
#include "data/foreign/megatron_index.hpp"
#include "data/foreign/npy_header.hpp"

namespace cohort {
namespace {

constexpr std::array kFormats{ForeignFormat::nanogpt, ForeignFormat::llmc, ForeignFormat::megatron, ForeignFormat::npy};

std::string with_extension(const std::string& path, const char* extension) {
  return std::filesystem::path(path).replace_extension(extension).string();
}

ForeignFormat recognise(const std::string& path) {
  if (path.ends_with(".idx") || (path.ends_with(".bin") && std::filesystem::exists(with_extension(path, ".idx"))))
    return ForeignFormat::megatron;
  std::array<char, 8> start{};
  const std::string_view magic(start.data(), StoredBytes(path).read_at(0, start));
  if (magic.starts_with(kNpyMagic)) return ForeignFormat::npy;
  if (is_llmc(magic)) return ForeignFormat::llmc;
  fail(ExitCode::usage,
       "{}: neither .npy nor .bin of llm.c, and there is no .idx of Megatron beside it; if it is uint16 ids and nothing else, as "
       "nanoGPT writes them, say --format nanogpt",
       path);
}

}  // namespace

std::string_view name_of(ForeignFormat format) {
  switch (format) {
    case ForeignFormat::nanogpt:
      return "nanogpt";
    case ForeignFormat::llmc:
      return "llmc";
    case ForeignFormat::megatron:
      return "megatron";
    case ForeignFormat::npy:
      break;
  }
  return "npy";
}

ForeignTokens::ForeignTokens(const std::string& path, const std::string& format) {
  if (format == "auto") {
    open(recognise(path), path);
    return;
  }
  for (const ForeignFormat known : kFormats) {
    if (name_of(known) != format) continue;
    open(known, path);
    return;
  }
  std::vector<std::string> names{"auto"};
  for (const ForeignFormat known : kFormats) names.emplace_back(name_of(known));
  fail(ExitCode::usage, "unknown format '{}'; known: {}", format, join(names));
}

void ForeignTokens::open(ForeignFormat format, const std::string& path) {
  format_ = format;
  switch (format) {
    case ForeignFormat::nanogpt:
      open_nanogpt(path);
      break;
    case ForeignFormat::llmc:
      open_llmc(path);
      break;
    case ForeignFormat::npy:
      open_npy(path);
      break;
    case ForeignFormat::megatron:
      open_megatron(path);
      break;
  }
  if (tokens_ == 0) fail(ExitCode::data, "{}: it has no tokens", this->path());
}

void ForeignTokens::open_nanogpt(const std::string& path) {
  file_ = std::make_unique<StoredBytes>(path);
  const Bytes size = file_->size();
  if (size % 2 != 0) fail(ExitCode::data, "{}: {} bytes are no number of 16-bit ids; is it truncated?", path, size);
  tokens_ = size / 2;
}

void ForeignTokens::open_llmc(const std::string& path) {
  file_ = std::make_unique<StoredBytes>(path);
  const LlmcHeader header = read_llmc_header(*file_);
  stored_ = {header.id_bytes, false};
  offset_ = kLlmcHeaderBytes;
  tokens_ = header.tokens;
  check_size("its header");
}

void ForeignTokens::open_npy(const std::string& path) {
  file_ = std::make_unique<StoredBytes>(path);
  const NpyHeader header = read_npy_header(*file_);
  stored_ = header.stored;
  offset_ = header.bytes;
  tokens_ = header.elements;
  check_size("its header");
}

void ForeignTokens::open_megatron(const std::string& path) {
  const std::string index_path = with_extension(path, ".idx");
  MegatronIndex index = read_megatron_index(index_path);
  file_ = std::make_unique<StoredBytes>(with_extension(path, ".bin"));
  stored_ = index.stored;
  tokens_ = index.tokens;
  if (!index.documents.empty()) documents_ = std::move(index.documents);
  check_size(index_path);
}

void ForeignTokens::check_size(std::string_view says) const {
  const Bytes size = file_->size();
  if (tokens_ > std::numeric_limits<Bytes>::max() / stored_.bytes - offset_)
    fail(ExitCode::data, "{}: {} says {}, but the file has {} bytes", file_->path(), says, counted(tokens_, "token"), size);
  const Bytes expected = offset_ + tokens_ * stored_.bytes;
  if (size == expected) return;
  fail(ExitCode::data, "{}: {} says {}, which end at byte {}, but the file has {} bytes: it is {}", file_->path(), says,
       counted(tokens_, "token"), expected, size, size < expected ? "truncated; copy it again" : "another file, or damaged");
}

void ForeignTokens::read(Count begin, std::span<std::int32_t> ids, Count vocabulary) const {
  const auto width = static_cast<std::size_t>(stored_.bytes);
  std::vector<char> raw(ids.size() * width);
  const Bytes first = offset_ + begin * stored_.bytes;
  if (file_->read_at(first, raw) < raw.size())
    fail(ExitCode::data, "{}: it became shorter while it was read; it should reach byte {}", path(),
         first + static_cast<Bytes>(raw.size()));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    // The highest byte of a negative number says so.
    const bool negative = stored_.is_signed && (static_cast<unsigned char>(raw[(i + 1) * width - 1]) & 0x80u) != 0;
    std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
    std::memcpy(&value, raw.data() + i * width, width);
    const auto id = static_cast<std::int64_t>(value);
    if (id < 0 || id >= vocabulary) {
      fail(ExitCode::data,
           "{}: token {}, at byte {} of the file, is {}, outside the vocabulary of {}: is it the right --tokenizer?", path(),
           begin + static_cast<Count>(i), first + static_cast<Bytes>(i * width), id, vocabulary);
    }
    ids[i] = static_cast<std::int32_t>(id);
  }
}

}  // namespace cohort
