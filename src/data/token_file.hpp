// Token files: the tokens of a corpus, split into training and validation, in HDF5.
//
// Format "cohort-tokens", version 1 (h5dump, h5ls and h5py read it):
//   /train, /validation   one-dim datasets of token ids, uint16 if vocabulary_size <= 65536, else uint32; at least 2 tokens each
//     @crc32              CRC-32 (zlib) of the dataset's bytes in the file (little-endian)
//   /tokenizer            text: the tokenizer in its serialised form (tokenizer.hpp)
//     (checked by the root's @tokenizer_crc32)
//   /sources              text: JSON list of {"file": name, "bytes": size}, the texts in their order
//   root attributes
//     @format, @version   "cohort-tokens", 1
//     @vocabulary_size    every id is smaller
//     @tokenizer          "byte" or "char"
//     @tokenizer_crc32    CRC-32 of the text /tokenizer
//     @entropy_nats_per_token, @empirical_nats_per_token
//                         only where known (synthetic text): the exact floor of the mean loss, and what the whole text costs
//                         under its own grammar; see synth_stories.hpp
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

/// Writes a token file as tokens come in: training first, then validation, in blocks of any size.
class TokenFileWriter {
 public:
  /// Sizes are in tokens. Throws Error(data) for a split of fewer than 2 tokens, Error(io) if the file cannot be created.
  TokenFileWriter(std::string path, const Tokenizer& tokenizer, Count train, Count validation,
                  const std::vector<TokenSource>& sources, std::optional<TokenEntropy> entropy);
  /// Without finish(), removes the temporary file.
  ~TokenFileWriter();
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;

  /// The next tokens; a block may span the two splits.
  void append(std::span<const std::int32_t> ids);
  /// Checks that all tokens came, flushes and renames.
  void finish();

 private:
  struct Part {
    std::optional<hdf5::Dataset> dataset;
    Count size = 0;
    Count written = 0;
    std::uint32_t crc32 = 0;
  };
  void append(Part& part, std::span<const std::int32_t> ids);

  std::string path_;
  std::string temporary_;
  Count vocabulary_size_;
  std::optional<hdf5::File> file_;
  std::array<Part, 2> parts_;
  std::vector<std::uint8_t> buffer_;
};

/// A token file open for reading. Any number of processes may read one file.
class TokenFile {
 public:
  /// Opens and checks all but the tokens themselves: format, version, types, shapes, sizes, tokenizer. Throws Error(io): missing
  /// or unreadable; Error(data): not HDF5, truncated, damaged, another format or version.
  explicit TokenFile(const std::string& path);

  const std::string& path() const { return path_; }
  Count tokens(Split split) const;
  Count vocabulary_size() const { return tokenizer_->vocabulary_size(); }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::vector<TokenSource>& sources() const { return sources_; }
  std::optional<TokenEntropy> entropy() const { return entropy_; }
  std::uint32_t crc32(Split split) const { return crc32_[static_cast<std::size_t>(split)]; }
  Bytes token_bytes() const { return token_bytes_; }

  /// Tokens [begin, begin + ids.size()) of a split. Throws Error(data) for a range outside of it (numbers given), for an id
  /// outside of the vocabulary (split and offset given) and for a read error.
  void read(Split split, Count begin, std::span<std::int32_t> ids) const;

  /// Reads everything once, in blocks: every id is in the vocabulary and the checksums hold. Throws Error(data) naming the split.
  /// Calls `block` (if any) with each block, for whoever wants to look at all tokens. One process of a job is enough.
  void verify(const std::function<void(Split, std::span<const std::int32_t>)>& block = {}) const;

 private:
  void check_format();
  void open_split(Split split);
  void read_facts();
  const hdf5::Dataset& dataset(Split split) const { return *datasets_[static_cast<std::size_t>(split)]; }
  void read_raw(Split split, Count begin, Count count, std::vector<std::uint8_t>& raw) const;
  void widen(Split split, Count begin, const std::vector<std::uint8_t>& raw, std::span<std::int32_t> ids) const;
  void verify_split(Split split, const std::function<void(Split, std::span<const std::int32_t>)>& block) const;

  std::string path_;
  hdf5::File file_;
  std::array<std::optional<hdf5::Dataset>, 2> datasets_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<TokenSource> sources_;
  std::optional<TokenEntropy> entropy_;
  std::array<std::uint32_t, 2> crc32_{};
  Bytes token_bytes_ = 2;
  mutable std::vector<std::uint8_t> raw_;  // of the last read: spares an allocation per sample
};

}  // namespace cohort
