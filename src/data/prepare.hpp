// Texts to a token file, with memory that does not depend on how much text there is, on any number of ranks.
//
// The texts are divided into pieces (data/texts/pieces.hpp, data/prepare/work_plan.hpp). The ranks encode them, each its share,
// into part files in the folder OUT.parts, which all ranks see; then one rank puts the token file together from these, in the
// order of the texts. So the file has the same bytes for any number of ranks, and a preparation that was killed goes on where it
// was: parts that are done are not done again. The folder goes when the token file is there.
//
// The token file is one contiguous file and no shards: its offsets have 64 bits, a run reads any range of it alone, and the rank
// that puts it together only copies, many times as fast as ranks encode.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "data/chat/chat_template.hpp"
#include "data/prepare/encoded_part.hpp"
#include "data/prepare/part_texts.hpp"
#include "data/prepare/parts_lock.hpp"
#include "data/prepare/work_plan.hpp"
#include "data/progress_callback.hpp"
#include "data/texts/input_files.hpp"
#include "data/token_file.hpp"
#include "data/tokenizer_kind.hpp"

namespace cohort {

struct PrepareOptions {
  std::vector<std::string> inputs;         // as list_inputs() takes them; their documents are joined with nothing between them
  std::string output;                      // replaced if it exists
  std::string tokenizer = "byte";          // a kind (data/tokenizer_kind.hpp), or what open_tokenizer() takes
  double validation = 0.1;                 // share of the tokens
  TokenizerLearning learning{};            // of a kind that is learned
  std::string field = "text";              // of lines of JSON, with the text of the document
  std::optional<std::string> separator{};  // line between documents of other texts, "": blank; nothing: a text is a document
  std::string end_of_document{};           // special token behind each document; "": none
  std::string conversations{};             // the name of a chat template: lines of JSON are conversations; "": they are not
  bool deduplicate = false;                // only the first of documents with the same text
  Bytes piece_bytes = 0;                   // 0: piece_bytes_for() the inputs
};

struct Prepared {
  Count train = 0;  // tokens
  Count validation = 0;
  std::string tokenizer;  // its kind
  Count vocabulary_size = 0;
  std::optional<TokenEntropy> entropy{};
  std::optional<Count> counted{};    // tokens that count as targets, of conversations
  Count documents = 0;               // in the token file
  Count duplicates = 0;              // left out
  std::vector<std::string> notes{};  // what a user may want to know about the texts: CRLF, a byte order mark, what was left out
};

/// Throws Error(usage), Error(io) for options that cannot be, before anything is read.
void check_prepare_options(const PrepareOptions& options);

/// The steps of a preparation, in the order of the functions below. All ranks have the same options and inputs. What takes long
/// tells the flight recorder that it gets on.
class Preparation {
 public:
  /// Looks for the inputs; of one rank, so that all have the same. Throws as list_inputs(); Error(usage): the output is an input.
  static InputList find_inputs(const PrepareOptions& options);

  Preparation(PrepareOptions options, InputList inputs);
  /// Removes the folder of the parts if none is in it.
  ~Preparation();
  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;

  /// On one rank, before anything is written: keeps other preparations of the same output out. Throws Error(io) if there is one.
  void lock();

  /// Whether the tokenizer is learned: then use_tokenizer() gets what kept_tokenizer() has on one rank, else what learn() makes
  /// there of the counts of all. Otherwise open_tokenizer() on each.
  bool learns() const;
  std::string kept_tokenizer() const;  // of an earlier preparation of the same texts that was killed; "" if there is none
  std::unique_ptr<TokenizerLearner> count(int rank, int ranks, const Progress& progress) const;
  std::string learn(TokenizerLearner& counts_of_all, const Progress& progress) const;
  void use_tokenizer(std::string_view serialised);
  void open_tokenizer();

  /// Throws Error(data) with file and place: what the tokenizer cannot take, broken lines of JSON, damaged compression.
  void encode(int rank, int ranks, const Progress& progress) const;

  /// On one rank, when all are done; removes the parts. Throws Error(data): too few tokens; Error(io), with the parts kept.
  Prepared assemble(const Progress& progress) const;

 private:
  friend class Assembly;

  std::filesystem::path part_path(const WorkItem& item, Count number) const;
  std::filesystem::path tokenizer_path() const;
  void set_tokenizer(std::unique_ptr<Tokenizer> tokenizer);
  bool is_done(const WorkItem& item, Count number, bool& last) const;
  EncodedPart encode_part(PartTexts& texts, const WorkItem& item, Count number, std::span<std::int32_t> block, bool& there) const;
  void encode_text(std::string_view text, const TextSource& source, std::span<std::int32_t> block, EncodedPart& part,
                   EncodedDocument& document) const;
  void encode_conversation(std::string_view line, EncodedPart& part, EncodedDocument& document) const;
  void append(std::span<const std::int32_t> ids, EncodedPart& part, EncodedDocument& document) const;

  PrepareOptions options_;
  InputList inputs_;
  WorkPlan plan_;
  DocumentRules rules_;
  std::filesystem::path folder_;  // of the parts
  std::optional<PartsLock> lock_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::string settings_;  // all that the tokens of a part follow from, beside its texts
  std::int32_t end_of_document_ = -1;
};

/// All steps, by one process. The validation split is the tail of the joined text, cut at a token: contiguous, so that no
/// validation window has been seen in training. Bytes are kept as they are: CRLF stays CRLF. The entropy is carried over when
/// every text is an unchanged synthetic corpus. `progress`: the share of bytes done. Throws as the steps do.
Prepared prepare_tokens(const PrepareOptions& options, const Progress& progress = {});

}  // namespace cohort
