// A part of the texts, encoded, in a file of its own until the token file is put together from all. A part file has its name from
// all that its content follows from, appears whole (by rename), and is checked when it is read: what is there is done, also after
// the process that wrote it was killed, and nothing else is taken for it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "base/units.hpp"
#include "data/prepare/content_hash.hpp"

namespace cohort {

/// A document, or what a piece has of one.
struct EncodedDocument {
  Count tokens = 0;
  ContentHash hash{};  // of its text
  std::uint32_t starts = 1, ends = 1;
};

/// What a piece had that a user may want to know.
struct PieceFacts {
  Bytes text_bytes = 0;  // of its documents
  Count crlf = 0, bare_returns = 0, byte_order_marks = 0;
  Count empty = 0;         // documents that were left out
  Count first_empty = -1;  // the byte of its text at which the first of them stands
};

struct EncodedPart {
  std::vector<EncodedDocument> documents{};
  std::vector<PieceFacts> pieces{};
  std::vector<std::uint8_t> ids{};      // of all documents, little-endian
  std::vector<std::uint8_t> counted{};  // of conversations, for each id whether it counts as a target
  Count tokens = 0;
  bool last = false;  // the text ends with its last piece
};

/// Throws Error(io).
void write_encoded_part(const std::filesystem::path& path, const EncodedPart& part);

/// Nothing if there is no such file, or if it is damaged (which a machine that lost its power can leave).
std::optional<EncodedPart> read_encoded_part(const std::filesystem::path& path);
/// Of one that was read before: all but the ids and what counts, unchecked.
EncodedPart read_encoded_documents(const std::filesystem::path& path);

}  // namespace cohort
