// The tokens of one split as bytes of the open file. A split is divided into blocks, each with a checksum, and a block is
// compared with its checksum when this process first reads of it: that costs one read of the block a run, and finds what a check
// of one rank's copy, or a check at the start, would not.
//
// Files change under a run. Each read looks at the size and the time of modification of the file: if it was written to, all
// blocks count as unchecked again, so that a file that was only touched does no harm and another content is found. A file that
// was replaced (written under another name and renamed) is none of our business: what was opened stays as it is.
//
// The bytes are read with pread() and not through HDF5, which gives zeros for what lies behind the end of a file.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace cohort {

/// Where the tokens of a split lie, and what their bytes must be.
struct TokenExtent {
  std::string name;     // for messages: "data/x.h5: /train"
  int descriptor = -1;  // of the file, which stays open
  Bytes offset = 0;     // of the first token, from the start of the file
  Count tokens = 0;     // at least 1
  Bytes token_bytes = 2;
  Count block_tokens = 0;            // what a checksum covers; the last block may have fewer
  std::vector<std::uint32_t> crc32;  // of each block
};

class TokenBlocks {
 public:
  explicit TokenBlocks(TokenExtent extent);

  const TokenExtent& extent() const { return extent_; }

  /// The bytes of the tokens [begin, begin + count), a range of the split. Throws Error(data) with the file, the tokens and their
  /// bytes in it: the file ends before them, or a block of them has another checksum; Error(io): it cannot be read.
  void read(Count begin, Count count, std::uint8_t* to);

  /// Called with the bytes of some tokens, the first of which is token `begin`, before their block has been compared.
  using Visit = std::function<void(Count begin, std::span<const std::uint8_t> bytes)>;
  /// Reads and compares all blocks, in order and in pieces of at most kPiece bytes. Errors: as read().
  void verify(const Visit& visit);

  /// Compares the blocks that have not been, in order, until one does not fit into `budget` bytes, which is reduced. Returns
  /// false if some are left.
  bool verify_within(Bytes& budget);

  static constexpr Bytes kPiece = 1 << 20;

 private:
  struct FileState {
    Bytes size = 0;
    std::int64_t modified = 0;  // nanoseconds
    bool operator==(const FileState&) const = default;
  };
  FileState look() const;
  Count first_of(Count block) const { return block * extent_.block_tokens; }
  Count end_of(Count block) const;
  Count blocks() const { return static_cast<Count>(checked_.size()); }

  void read_once(Count begin, Count count, std::uint8_t* to);
  void check_block(Count block, const Visit& visit);
  void pread_tokens(Count begin, Count count, std::uint8_t* to) const;
  /// Since the last look.
  bool was_written();
  std::string place(Count begin, Count end) const;

  TokenExtent extent_;
  std::vector<bool> checked_;  // of each block
  FileState state_;            // as of the last look
  std::vector<std::uint8_t> piece_;
};

}  // namespace cohort
