// The documents of a part of the work, as its pieces have them.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "data/chat/chat_template.hpp"
#include "data/prepare/encoded_part.hpp"
#include "data/prepare/work_plan.hpp"
#include "data/text_source.hpp"
#include "data/texts/pieces.hpp"

namespace cohort {

/// How documents stand in the inputs.
struct DocumentRules {
  std::string field;                     // of lines of JSON
  std::optional<std::string> separator;  // in other texts; nothing: a text is a document
  const ChatTemplate* chat = nullptr;    // lines of JSON are conversations, visited as they stand; null: they are not
  Framing framing_of(const InputFile& file) const;
};

class PartTexts {
 public:
  /// The arguments must outlive it.
  PartTexts(const InputList& inputs, const WorkPlan& plan, const DocumentRules& rules);

  /// A document, or what a piece has of one.
  using Visit = std::function<void(std::string_view text, const TextSource& source, bool starts, bool ends)>;
  /// Visits the documents of part `number` of an item (0 of one that is not open-ended) in order, and calls `done` with the facts
  /// of each piece. False if the text ends before that part. Throws Error(io), Error(data) with file and place, which also
  /// completes what `visit` throws of a line: damage, a broken line, an empty text, a file that changed meanwhile.
  bool visit(const WorkItem& item, Count number, const Visit& visit, const std::function<void(const PieceFacts&)>& done);
  /// Whether the text ends with the part that was visited last.
  bool last() const { return !reader_ || reader_->last(); }

 private:
  PieceFacts visit_piece(const Visit& visit);
  void visit_line(std::string_view line, std::size_t begin, const Visit& visit, PieceFacts& facts);
  void check_unchanged(const InputFile& file) const;

  const InputList& inputs_;
  Bytes piece_bytes_;
  const DocumentRules& rules_;
  std::optional<PieceReader> reader_;
  std::size_t open_file_ = 0;
};

}  // namespace cohort
