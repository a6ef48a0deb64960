// Token files: the tokens of a corpus, split into training and validation, in HDF5.
//
// Format "cohort-tokens", versions 2 and 3 (h5dump, h5ls and h5py read it):
//   /train, /validation   one-dim datasets of token ids, uint16 if vocabulary_size <= 65536, else uint32; at least 2 tokens each;
//                         contiguous: the tokens are one range of the file
//     @crc32              CRC-32 (zlib) of the dataset's bytes in the file (little-endian)
//   /checksums/train, /checksums/validation
//                         uint32: the CRC-32 of each block of a split, so that it can be checked as it is read (token_blocks.hpp)
//     @block_tokens       tokens of a block; the last one may have fewer
//     @crc32              of this dataset's own bytes
//   /documents/train, /documents/validation
//                         uint64: where each document begins in the split, ascending from 0, and behind the last the tokens of
//                         the split; one that the splits divide is in both. Files of earlier versions of Cohort have none.
//     @crc32              of this dataset's own bytes
//   /counted/train, /counted/validation
//                         only in version 3, which is of conversations: uint8, 1 for each token that counts as a target, which
//                         are those of the assistant's answers and what ends them; 0 for the others
//     @crc32              as of the tokens; and /checksums/counted/train, /checksums/counted/validation as above
//   /tokenizer            text: the tokenizer in its serialised form (tokenizer.hpp)
//     (checked by the root's @tokenizer_crc32)
//   /sources              text: JSON list of {"file": name, "bytes": size}, the texts in their order
//   root attributes
//     @format, @version   "cohort-tokens", 2, or 3 with /counted: a program that does not know it must not train on all tokens
//     @chat_template      only in version 3: the name of the template of the conversations (chat/chat_template.hpp)
//     @vocabulary_size    every id is smaller
//     @tokenizer          the name of its kind, "byte" or such
//     @tokenizer_crc32    CRC-32 of the text /tokenizer
//     @entropy_nats_per_token, @empirical_nats_per_token
//                         only where known (synthetic text): the exact floor of the mean loss, and what the whole text costs
//                         under its own grammar; see synth_stories.hpp
// Version 1 had no /checksums. Such files are read; a split of theirs is a single block, read whole by each rank that uses it.
// All sizes and offsets have 64 bits. A file is written under a temporary name, flushed and renamed: what bears its name is
// complete.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"
#include "data/token_blocks.hpp"
#include "data/tokenizer.hpp"
#include "hdf5/hdf5.hpp"

namespace cohort {

enum class Split : std::uint8_t { train, validation };

/// "train", "validation": the names of the datasets.
std::string_view name_of(Split split);

/// One text that went into a token file.
struct TokenSource {
  std::string file;
  Bytes bytes = 0;
};

/// The known floor of the loss, in nats per token.
struct TokenEntropy {
  double exact = 0;      // of the source of the text
  double empirical = 0;  // of this very text
};

/// How many documents are, or begin, in each split.
struct DocumentCounts {
  Count train = 0;
  Count validation = 0;
};

/// Writes a token file as tokens come in: training first, then validation, in blocks of any size.
class TokenFileWriter {
 public:
  /// Sizes are in tokens. Without documents (0 in both splits) the file says nothing of them. Throws Error(data) for a split of
  /// fewer than 2 tokens, Error(io) if the file cannot be created. `chat_template`: of conversations; then append() is told which
  /// tokens count.
  TokenFileWriter(std::string path, const Tokenizer& tokenizer, Count train, Count validation,
                  const std::vector<TokenSource>& sources, std::optional<TokenEntropy> entropy, DocumentCounts documents = {},
                  const std::string& chat_template = "");
  /// Without finish(), removes the temporary file.
  ~TokenFileWriter();
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;

  /// The tokens that come next begin a document.
  void begin_document();
  /// The next tokens; a block may span the two splits. `counted` of conversations: 1 for each that counts as a target.
  void append(std::span<const std::int32_t> ids, std::span<const std::uint8_t> counted = {});
  /// Checks that all tokens came, flushes and renames.
  void finish();

 private:
  // An element for each token of a split: its id, or whether it counts.
  struct Column {
    std::optional<hdf5::Dataset> dataset;
    Count written = 0;
    std::uint32_t crc32 = 0;
    std::vector<std::uint32_t> blocks;  // the checksum of each
  };
  struct Part {
    Column tokens, counted;
    Count size = 0;
    std::optional<hdf5::Dataset> documents;
    std::vector<std::uint64_t> starts;  // of documents, not written yet
    Count starts_written = 0;
    std::uint32_t starts_crc32 = 0;
  };
  void append(Part& part, std::span<const std::int32_t> ids);
  void write(Column& column, std::span<const std::uint8_t> bytes);
  void write_checksums(const Column& column, const std::string& name);
  void create_documents(DocumentCounts documents);
  void add_start(Part& part, Count start);
  void write_starts(Part& part);
  void finish_documents(Part& part);

  std::string path_;
  std::string temporary_;
  Count vocabulary_size_;
  std::optional<hdf5::File> file_;
  std::array<Part, 2> parts_;
  std::vector<std::uint8_t> buffer_;
  Bytes unflushed_ = 0;
};

/// A token file open for reading. Any number of processes may read one file.
class TokenFile {
 public:
  /// Opens and checks all but the tokens themselves: format, version, types, shapes, sizes, checksums, tokenizer. Throws
  /// Error(io): missing or unreadable; Error(data): not HDF5, truncated, damaged, another format or version.
  explicit TokenFile(const std::string& path);

  const std::string& path() const { return path_; }
  Count tokens(Split split) const;
  Count vocabulary_size() const { return tokenizer_->vocabulary_size(); }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::vector<TokenSource>& sources() const { return sources_; }
  std::optional<TokenEntropy> entropy() const { return entropy_; }
  /// Of conversations, whose answers alone count as targets; "" if all tokens count.
  const std::string& chat_template() const { return chat_template_; }
  std::uint32_t crc32(Split split) const { return crc32_[static_cast<std::size_t>(split)]; }
  Bytes token_bytes() const { return token_bytes_; }
  Count version() const { return version_; }

  /// How many documents are in a split, in whole or in part; 0 if the file does not say.
  Count documents(Split split) const { return documents_[static_cast<std::size_t>(split)]; }
  /// Entries [first, first + starts.size()) of where its documents begin; entry documents(split) is the number of tokens. The
  /// checksum is verify()'s to compare.
  void read_documents(Split split, Count first, std::span<std::uint64_t> starts) const;

  /// Tokens [begin, begin + ids.size()) of a split, of blocks whose checksums hold: those that have not been compared are read
  /// whole. Throws Error(data), with split and offset: a range outside of it, a file that was cut, a block with another checksum,
  /// an id outside of the vocabulary; Error(io): a read error.
  void read(Split split, Count begin, std::span<std::int32_t> ids) const;

  /// Whether each of these tokens counts as a target: 1 or 0. For conversations. Errors: as read().
  void read_counted(Split split, Count begin, std::span<std::uint8_t> counted) const;
  /// Of all of it; 0 if all tokens count.
  std::uint32_t counted_crc32(Split split) const { return counted_crc32_[static_cast<std::size_t>(split)]; }

  /// Reads everything once, in pieces: every id is in the vocabulary and the checksums hold. Errors: as read(). Calls `piece` (if
  /// any) with each piece, for whoever wants to look at all tokens.
  void verify(const std::function<void(Split, std::span<const std::int32_t>)>& piece = {}) const;

  /// The same for where the documents of a split begin: they ascend, and their checksum holds.
  void verify_documents(Split split) const;

  /// Compares the blocks that have not been compared yet, up to about so many bytes: for a start that finds damage at once where
  /// that costs little. Returns false if some are left. Errors: as read().
  bool verify_within(Bytes bytes) const;

 private:
  void check_format();
  void open_split(Split split);
  void open_counted(Split split);
  std::unique_ptr<TokenBlocks> open_blocks(const hdf5::Dataset& dataset, const std::string& name, std::uint32_t& crc32) const;
  std::vector<std::uint32_t> read_checksums(const std::string& name, Count tokens, Count& block_tokens) const;
  void check_range(Split split, Count begin, Count count) const;
  void read_facts();
  void open_documents(Split split);
  TokenBlocks& blocks(Split split) const { return *blocks_[static_cast<std::size_t>(split)]; }
  void widen(Split split, Count begin, std::span<const std::uint8_t> raw, std::span<std::int32_t> ids) const;
  void verify_split(Split split, const std::function<void(Split, std::span<const std::int32_t>)>& piece) const;
  void verify_counted(Split split) const;
  void require_crc32(const std::string& name, std::uint32_t computed, std::uint32_t stored) const;

  std::string path_;
  hdf5::File file_;  // open for its descriptor
  Count version_ = 0;
  std::array<std::unique_ptr<TokenBlocks>, 2> blocks_;
  std::array<std::unique_ptr<TokenBlocks>, 2> counted_;  // null: all tokens count
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<TokenSource> sources_;
  std::optional<TokenEntropy> entropy_;
  std::string chat_template_;
  std::array<std::uint32_t, 2> crc32_{}, counted_crc32_{};
  std::array<Count, 2> documents_{};
  Bytes token_bytes_ = 2;
  mutable std::vector<std::uint8_t> raw_;  // of the last read: spares an allocation per sample
};

}  // namespace cohort
