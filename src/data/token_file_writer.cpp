#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "data/id_bytes.hpp"
#include "data/token_file.hpp"
#include "data/token_format.hpp"

namespace cohort {
namespace {

constexpr Bytes kFlushed = 64 * kMiB;  // written between two flushes

}  // namespace

TokenFileWriter::TokenFileWriter(std::string path, const Tokenizer& tokenizer, Count train, Count validation,
                                 const std::vector<TokenSource>& sources, std::optional<TokenEntropy> entropy,
                                 DocumentCounts documents, const std::string& chat_template)
    : path_(std::move(path)), temporary_(path_ + ".tmp"), vocabulary_size_(tokenizer.vocabulary_size()) {
  if (train < token_format::kSmallestSplit || validation < token_format::kSmallestSplit) {
    fail(ExitCode::data,
         "{}: the text gives {} for training and {} for validation, but at least {} of each are needed: give more text, or "
         "another --validation",
         path_, counted(train, "token"), validation, token_format::kSmallestSplit);
  }
  file_ = hdf5::File::create(temporary_);
  file_->set_attribute("format", std::string(token_format::kFormat));
  file_->set_attribute("version", chat_template.empty() ? token_format::kVersionWithoutMask : token_format::kVersion);
  file_->set_attribute("vocabulary_size", vocabulary_size_);
  file_->set_attribute("tokenizer", std::string(tokenizer.kind()));
  const std::string serialised = tokenizer.serialise();
  file_->set_attribute("tokenizer_crc32", std::int64_t{extend_crc32(0, serialised.data(), serialised.size())});
  file_->write_text("tokenizer", serialised);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TokenSource& source : sources) list.push_back({{"file", source.file}, {"bytes", source.bytes}});
  // A file name may hold any bytes; JSON text is UTF-8.
  file_->write_text("sources", list.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  if (entropy) {
    file_->set_attribute("entropy_nats_per_token", entropy->exact);
    file_->set_attribute("empirical_nats_per_token", entropy->empirical);
  }
  for (const Split split : {Split::train, Split::validation}) {
    Part& part = parts_[static_cast<std::size_t>(split)];
    part.size = split == Split::train ? train : validation;
    part.tokens.dataset = file_->create_dataset(std::string(name_of(split)), token_format::element_for(vocabulary_size_),
                                                std::vector<Count>{part.size});
  }
  if (!chat_template.empty()) {
    file_->set_attribute("chat_template", chat_template);
    for (const Split split : {Split::train, Split::validation}) {
      Part& part = parts_[static_cast<std::size_t>(split)];
      part.counted.dataset =
          file_->create_dataset(token_format::counted_of(name_of(split)), hdf5::Element::u8, std::vector<Count>{part.size});
    }
  }
  create_documents(documents);
}

void TokenFileWriter::create_documents(DocumentCounts documents) {
  if (documents.train + documents.validation == 0) return;
  for (const Split split : {Split::train, Split::validation}) {
    const Count count = split == Split::train ? documents.train : documents.validation;
    parts_[static_cast<std::size_t>(split)].documents =
        file_->create_dataset(token_format::documents_of(name_of(split)), hdf5::Element::u64, std::vector<Count>{count + 1});
  }
}

TokenFileWriter::~TokenFileWriter() {
  if (!file_) return;
  for (Part& part : parts_) {
    part.tokens.dataset.reset();
    part.counted.dataset.reset();
    part.documents.reset();
  }
  file_.reset();
  std::remove(temporary_.c_str());
}

void TokenFileWriter::begin_document() {
  Part& part = parts_[parts_[0].tokens.written < parts_[0].size ? 0 : 1];
  add_start(part, part.tokens.written);
}

void TokenFileWriter::add_start(Part& part, Count start) {
  part.starts.push_back(static_cast<std::uint64_t>(start));
  if (part.starts.size() == static_cast<std::size_t>(token_format::kBlock)) write_starts(part);
}

void TokenFileWriter::write_starts(Part& part) {
  const auto count = static_cast<Count>(part.starts.size());
  part.documents->write_range(part.starts_written, count, part.starts.data(), hdf5::Element::u64);
  part.starts_crc32 = extend_crc32(part.starts_crc32, part.starts.data(), part.starts.size() * sizeof(std::uint64_t));
  part.starts_written += count;
  part.starts.clear();
}

void TokenFileWriter::finish_documents(Part& part) {
  if (!part.documents) return;
  add_start(part, part.size);
  write_starts(part);
  COHORT_CHECK(part.starts_written == part.documents->elements(), "{}: {} documents begin, {} were announced", path_,
               part.starts_written - 1, part.documents->elements() - 1);
  part.documents->set_attribute("crc32", std::int64_t{part.starts_crc32});
  part.documents.reset();
}

void TokenFileWriter::append(std::span<const std::int32_t> ids, std::span<const std::uint8_t> counted) {
  COHORT_CHECK(counted.size() == (parts_[0].counted.dataset ? ids.size() : 0), "{}: {} tokens, whether {} of them count", path_,
               ids.size(), counted.size());
  for (Part& part : parts_) {
    const auto room = static_cast<std::size_t>(part.size - part.tokens.written);
    const std::size_t count = std::min(room, ids.size());
    append(part, ids.first(count));
    ids = ids.subspan(count);
    if (counted.empty()) continue;
    write(part.counted, counted.first(count));
    counted = counted.subspan(count);
  }
  COHORT_CHECK(ids.empty(), "{}: {} tokens more than were announced", path_, ids.size());
}

void TokenFileWriter::append(Part& part, std::span<const std::int32_t> ids) {
  if (ids.empty()) return;
  // A document that the split divides goes on here.
  if (part.documents && part.tokens.written == 0 && part.starts.empty()) add_start(part, 0);
  const Bytes width = hdf5::size_of(part.tokens.dataset->element());
  buffer_.resize(ids.size() * static_cast<std::size_t>(width));
  for (const std::int32_t id : ids)
    COHORT_CHECK(id >= 0 && id < vocabulary_size_, "{}: token id {} with a vocabulary of {}", path_, id, vocabulary_size_);
  store_ids(ids, width, buffer_.data());
  write(part.tokens, buffer_);
}

void TokenFileWriter::write(Column& column, std::span<const std::uint8_t> bytes) {
  if (bytes.empty()) return;
  const hdf5::Element element = column.dataset->element();
  const auto width = static_cast<std::size_t>(hdf5::size_of(element));
  const std::size_t elements = bytes.size() / width;
  column.dataset->write_block(std::vector<Count>{column.written}, std::vector<Count>{static_cast<Count>(elements)}, bytes.data(),
                              element);
  column.crc32 = extend_crc32(column.crc32, bytes.data(), bytes.size());
  // So that the flush at the end is short: whoever watches the job sees nothing move in it.
  unflushed_ += static_cast<Bytes>(bytes.size());
  if (unflushed_ >= kFlushed) begin_flush(temporary_);
  unflushed_ %= kFlushed;
  for (std::size_t i = 0; i < elements;) {
    const Count in_block = column.written % token_format::kBlock;
    if (in_block == 0) column.blocks.push_back(0);
    const auto count = std::min(static_cast<std::size_t>(token_format::kBlock - in_block), elements - i);
    column.blocks.back() = extend_crc32(column.blocks.back(), bytes.data() + i * width, count * width);
    column.written += static_cast<Count>(count);
    i += count;
  }
}

void TokenFileWriter::write_checksums(const Column& column, const std::string& name) {
  const auto blocks = static_cast<Count>(column.blocks.size());
  hdf5::Dataset checksums =
      file_->create_dataset(token_format::checksums_of(name), hdf5::Element::u32, std::vector<Count>{blocks});
  checksums.write<std::uint32_t>(column.blocks);
  checksums.set_attribute("block_tokens", token_format::kBlock);
  checksums.set_attribute("crc32", std::int64_t{extend_crc32(0, column.blocks.data(), column.blocks.size() * 4)});
}

void TokenFileWriter::finish() {
  for (const Split split : {Split::train, Split::validation}) {
    Part& part = parts_[static_cast<std::size_t>(split)];
    COHORT_CHECK(part.tokens.written == part.size, "{}: {} tokens of {} were written", path_, part.tokens.written, part.size);
    part.tokens.dataset->set_attribute("crc32", std::int64_t{part.tokens.crc32});
    part.tokens.dataset.reset();
    finish_documents(part);
    write_checksums(part.tokens, std::string(name_of(split)));
    if (!part.counted.dataset) continue;
    part.counted.dataset->set_attribute("crc32", std::int64_t{part.counted.crc32});
    part.counted.dataset.reset();
    write_checksums(part.counted, token_format::counted_of(name_of(split)));
  }
  file_->close();
  file_.reset();
  commit_file(temporary_, path_);
}

}  // namespace cohort
