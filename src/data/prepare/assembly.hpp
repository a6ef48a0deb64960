// The last step of a preparation: one rank puts the token file together from the encoded parts.
#pragma once

#include <functional>
#include <unordered_set>
#include <vector>

#include "data/prepare.hpp"

namespace cohort {

class Assembly {
 public:
  explicit Assembly(const Preparation& preparation);

  /// The parts are read three times: which documents stay and how many tokens they have; how many begin in each split; the
  /// tokens. Memory: a part, a bit for each document, and without duplicates about 60 bytes for each.
  Prepared run(const Progress& progress);

 private:
  enum class Want { documents, all };
  using Visit = std::function<void(const WorkItem& item, const EncodedPart& part)>;
  void for_each_part(Want want, const Visit& visit) const;
  /// Of a part: those that stay, and the token of the part that is their first. `index`: the number of documents that have begun,
  /// over all parts.
  void for_each_kept(const EncodedPart& part, std::size_t& index,
                     const std::function<void(const EncodedDocument& document, std::size_t first)>& visit) const;

  void survey();
  void take_document(const EncodedDocument& document);
  void append(const EncodedPart& part, std::size_t first, Count tokens, TokenFileWriter& writer);
  void take_facts(const WorkItem& item, const EncodedPart& part);
  DocumentCounts count_by_split() const;
  void write_tokens(TokenFileWriter& writer, const Progress& progress);
  std::vector<TokenSource> sources() const;
  std::optional<TokenEntropy> entropy() const;
  void add_notes(std::vector<std::string>& notes) const;

  const Preparation& preparation_;
  std::size_t token_bytes_;
  std::vector<PieceFacts> facts_;                          // of each input
  std::vector<bool> keep_;                                 // of each document
  Count tokens_ = 0, documents_ = 0, without_tokens_ = 0;  // the last are documents, which are left out
  EncodedDocument current_;                                // that has begun
  struct HashOfHash {
    std::size_t operator()(const ContentHash& hash) const { return static_cast<std::size_t>(hash.low); }
  };
  std::unordered_set<ContentHash, HashOfHash> seen_;
  Count train_ = 0;
  std::vector<std::int32_t> ids_;  // on their way from a part to the file
  Count counted_ = 0;              // of them, as targets
};

}  // namespace cohort
