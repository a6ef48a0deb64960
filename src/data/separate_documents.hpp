// Samples packed with documents that are to be separate: loss and attention do not cross from one to the next.
//
// A sample is a window of neighbouring tokens, whatever documents they are of. The piece of a document at its left edge starts
// like a document of its own, at position 0: what came before is in another sample. The last token of a document has no target,
// since what follows is no continuation of it; an end-of-document token is part of its document, and the target of the token
// before.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/token_file.hpp"

namespace cohort {

/// One sample of T tokens, to be marked.
struct PackedSample {
  std::span<std::int32_t> first_keys;  // [T] becomes for each token the place in the sample of its document's first token
  std::span<std::int32_t> positions;   // [T] becomes each token's place in its document
  std::span<std::int32_t> targets;     // [T] -1 where the target would be another document's
};

/// Where the documents of some token files begin, in memory: 8 bytes a document.
class SeparateDocuments {
 public:
  /// Reads and checks them. Throws Error(data) if the file does not say where they begin, or is damaged. The file must outlive
  /// this object.
  void add(const TokenFile& file);
  /// None were added: documents are joined.
  bool empty() const { return files_.empty(); }
  /// Of a sample whose first token is token `begin` of a split; the file was added.
  void mark(const TokenFile& file, Split split, Count begin, const PackedSample& sample) const;

 private:
  struct Starts {
    const TokenFile* file;
    std::vector<std::uint64_t> of_split[2];  // ascending; behind the last document the tokens of the split
  };
  std::vector<Starts> files_;
};

}  // namespace cohort
