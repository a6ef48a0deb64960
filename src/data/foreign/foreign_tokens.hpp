// Token ids in files of other programs: whose they are, what they are stored as, and where documents begin.
//
//   nanogpt   uint16, nothing else: names neither itself nor the tokenizer
//   llmc      a header of 256 int32 (magic 20240520 for uint16 ids, 20240801 for uint32; version; number of ids), then the ids
//   megatron  FILE.bin with the ids of all sequences, FILE.idx with type, lengths, offsets and the documents ("MMIDIDX")
//   npy       an array of NumPy, with any shape in C order
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "data/foreign/stored_id.hpp"
#include "data/texts/stored_bytes.hpp"

namespace cohort {

enum class ForeignFormat : std::uint8_t { nanogpt, llmc, megatron, npy };

/// "nanogpt", ...
std::string_view name_of(ForeignFormat format);

class ForeignTokens {
 public:
  /// Recognises all but nanogpt, which has to be said: `format` "auto" or a name. Throws Error(io); Error(data) with file and
  /// place: truncated, more bytes than the header says, an index that disagrees with its data, another version; Error(usage): an
  /// unknown format, a file that is of none.
  ForeignTokens(const std::string& path, const std::string& format);

  ForeignFormat format() const { return format_; }
  const std::string& path() const { return file_->path(); }  // of the ids
  Count tokens() const { return tokens_; }
  Bytes bytes() const { return tokens_ * stored_.bytes; }
  /// Whether ids above 65,535 have no place in it.
  bool is_narrow() const { return stored_.bytes <= 2; }
  /// Where documents begin, ascending from 0; only {0} if the file does not say.
  const std::vector<std::uint64_t>& documents() const { return documents_; }

  /// Ids [begin, begin + ids.size()). Throws Error(data) with the byte for an id outside of [0, vocabulary).
  void read(Count begin, std::span<std::int32_t> ids, Count vocabulary) const;

 private:
  void open(ForeignFormat format, const std::string& path);
  void open_nanogpt(const std::string& path);
  void open_llmc(const std::string& path);
  void open_npy(const std::string& path);
  void open_megatron(const std::string& path);
  /// Throws Error(data) if the file is not as long as so many ids from offset_ on.
  void check_size(std::string_view says) const;

  ForeignFormat format_ = ForeignFormat::nanogpt;
  std::unique_ptr<StoredBytes> file_;
  StoredId stored_;
  Bytes offset_ = 0;  // of the first id
  Count tokens_ = 0;
  std::vector<std::uint64_t> documents_{0};
};

}  // namespace cohort
