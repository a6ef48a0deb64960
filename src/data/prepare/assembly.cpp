#include "data/prepare/assembly.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "base/text.hpp"
#include "data/document_counter.hpp"
#include "data/id_bytes.hpp"
#include "data/synth_stories.hpp"
#include "data/token_format.hpp"
#include "hdf5/hdf5.hpp"
#include "observe/flight_recorder.hpp"

namespace cohort {

Assembly::Assembly(const Preparation& preparation)
    : preparation_(preparation),
      token_bytes_(static_cast<std::size_t>(hdf5::size_of(token_format::element_for(preparation.tokenizer_->vocabulary_size())))),
      facts_(preparation.inputs_.files.size()) {}

void Assembly::for_each_part(Want want, const Visit& visit) const {
  for (const WorkItem& item : preparation_.plan_.items) {
    for (Count number = 0;; ++number) {
      const std::filesystem::path path = preparation_.part_path(item, number);
      std::optional<EncodedPart> part = want == Want::all ? read_encoded_part(path) : read_encoded_documents(path);
      if (!part)
        fail(ExitCode::io,
             "the encoded part '{}' is missing or damaged: all ranks must see the folder; run the same command again, which "
             "makes it anew",
             path.string());
      visit(item, *part);
      FlightRecorder::of_process().beat();
      if (!item.open_ended || part->last) break;
    }
  }
}

void Assembly::survey() {
  for_each_part(Want::all, [&](const WorkItem& item, const EncodedPart& part) {
    take_facts(item, part);
    for (const EncodedDocument& document : part.documents) take_document(document);
  });
  seen_.clear();
}

void Assembly::take_document(const EncodedDocument& document) {
  if (document.starts != 0) {
    current_ = document;
  } else {  // the hash of a text in pieces: of the hashes of the pieces
    const std::array<ContentHash, 2> both{current_.hash, document.hash};
    current_.hash = hash_of({reinterpret_cast<const char*>(both.data()), sizeof(both)});
    current_.tokens += document.tokens;
  }
  if (document.ends == 0) return;
  const bool empty = current_.tokens == 0;  // a tokenizer may leave nothing of a text, such as SentencePiece of spaces
  const bool fresh = !empty && (!preparation_.options_.deduplicate || seen_.insert(current_.hash).second);
  keep_.push_back(fresh);
  without_tokens_ += empty ? 1 : 0;
  if (!fresh) return;
  ++documents_;
  tokens_ += current_.tokens;
}

void Assembly::take_facts(const WorkItem& item, const EncodedPart& part) {
  for (std::size_t i = 0; i < part.pieces.size(); ++i) {
    PieceFacts& sum = facts_[item.pieces[i].file];
    const PieceFacts& facts = part.pieces[i];
    if (sum.empty == 0 && facts.empty > 0) sum.first_empty = facts.first_empty;
    sum.text_bytes += facts.text_bytes;
    sum.crlf += facts.crlf;
    sum.bare_returns += facts.bare_returns;
    sum.byte_order_marks += facts.byte_order_marks;
    sum.empty += facts.empty;
  }
}

void Assembly::for_each_kept(const EncodedPart& part, std::size_t& index,
                             const std::function<void(const EncodedDocument& document, std::size_t first)>& visit) const {
  std::size_t first = 0;
  for (const EncodedDocument& document : part.documents) {
    index += document.starts;
    if (keep_[index - 1]) visit(document, first);
    first += static_cast<std::size_t>(document.tokens);
  }
}

DocumentCounts Assembly::count_by_split() const {
  DocumentCounter counter(train_);
  std::size_t index = 0;
  Count position = 0;
  for_each_part(Want::documents, [&](const WorkItem&, const EncodedPart& part) {
    for_each_kept(part, index, [&](const EncodedDocument& document, std::size_t) {
      if (document.starts != 0) counter.begin(position);
      position += document.tokens;
    });
  });
  return counter.finish(tokens_);
}

void Assembly::append(const EncodedPart& part, std::size_t first, Count tokens, TokenFileWriter& writer) {
  ids_.resize(std::size_t{1} << 16);
  for (const std::size_t end = first + static_cast<std::size_t>(tokens); first < end;) {
    const std::size_t count = std::min(ids_.size(), end - first);
    const auto ids = std::span(ids_).first(count);
    load_ids(part.ids.data() + first * token_bytes_, static_cast<Bytes>(token_bytes_), ids);
    const auto counted = part.counted.empty() ? std::span<const std::uint8_t>() : std::span(part.counted).subspan(first, count);
    writer.append(ids, counted);
    counted_ += std::count(counted.begin(), counted.end(), 1);
    first += count;
  }
}

void Assembly::write_tokens(TokenFileWriter& writer, const Progress& progress) {
  std::size_t index = 0;
  Count written = 0;
  for_each_part(Want::all, [&](const WorkItem&, const EncodedPart& part) {
    for_each_kept(part, index, [&](const EncodedDocument& document, std::size_t first) {
      if (document.starts != 0) writer.begin_document();
      append(part, first, document.tokens, writer);
      written += document.tokens;
    });
    if (progress) progress(static_cast<double>(written) / static_cast<double>(tokens_));
  });
}

std::vector<TokenSource> Assembly::sources() const {
  std::vector<TokenSource> sources;
  for (std::size_t i = 0; i < facts_.size(); ++i) sources.push_back({preparation_.inputs_.files[i].path, facts_[i].text_bytes});
  return sources;
}

// Known if the tokens are those of unchanged corpora of one grammar and nothing else; a byte is a character there, since the
// stories are ASCII.
std::optional<TokenEntropy> Assembly::entropy() const {
  if (preparation_.end_of_document_ >= 0 || preparation_.options_.separator || preparation_.rules_.chat != nullptr ||
      documents_ != static_cast<Count>(facts_.size()))
    return std::nullopt;
  TokenEntropy entropy;
  double bytes = 0;
  for (std::size_t i = 0; i < facts_.size(); ++i) {
    const auto facts = read_corpus_facts(preparation_.inputs_.files[i].path);
    if (!facts || (i > 0 && facts->entropy_nats_per_character != entropy.exact)) return std::nullopt;
    entropy.exact = facts->entropy_nats_per_character;
    entropy.empirical += facts->empirical_nats_per_character * static_cast<double>(facts->bytes);
    bytes += static_cast<double>(facts->bytes);
  }
  entropy.empirical /= static_cast<double>(tokens_);
  entropy.exact *= bytes / static_cast<double>(tokens_);
  return entropy;
}

void Assembly::add_notes(std::vector<std::string>& notes) const {
  const auto note = [&](Count PieceFacts::*member, const std::function<std::string(Count)>& words) {
    std::vector<std::string> files;
    Count count = 0;
    for (std::size_t i = 0; i < facts_.size(); ++i) {
      if (facts_[i].*member == 0) continue;
      files.push_back(preparation_.inputs_.files[i].path);
      count += facts_[i].*member;
    }
    if (count > 0) notes.push_back(fmt::format("{}: {}", first_few(files, 3), words(count)));
  };
  note(&PieceFacts::crlf,
       [](Count n) { return fmt::format("{} in CRLF (Windows); kept as is", counted(n, "line ends", "lines end")); });
  note(&PieceFacts::bare_returns,
       [](Count n) { return fmt::format("{} without a line feed; kept as is", counted(n, "carriage return")); });
  note(&PieceFacts::byte_order_marks, [](Count n) {
    return fmt::format("{} with a byte order mark; kept as is", n == 1 ? "starts" : fmt::format("{} files start", n));
  });
  for (std::size_t i = 0; i < facts_.size(); ++i) {
    const PieceFacts& facts = facts_[i];
    if (facts.empty == 0) continue;
    const InputFile& file = preparation_.inputs_.files[i];
    notes.push_back(
        fmt::format("{}: {} left out{}", file.path, counted(facts.empty, "empty document"),
                    facts.first_empty < 0 ? "" : fmt::format("; the first is line {}", line_of_byte(file, facts.first_empty))));
    if (notes.size() > 20) break;  // of thousands of files
  }
}

Prepared Assembly::run(const Progress& progress) {
  const PrepareOptions& options = preparation_.options_;
  const Tokenizer& tokenizer = *preparation_.tokenizer_;
  survey();
  Prepared prepared{.tokenizer = std::string(tokenizer.kind()), .vocabulary_size = tokenizer.vocabulary_size()};
  prepared.validation = static_cast<Count>(std::llround(static_cast<double>(tokens_) * options.validation));
  prepared.train = train_ = tokens_ - prepared.validation;
  prepared.entropy = entropy();
  prepared.documents = documents_;
  prepared.duplicates = static_cast<Count>(keep_.size()) - documents_ - without_tokens_;
  prepared.notes = preparation_.inputs_.notes;
  add_notes(prepared.notes);
  if (const std::string losses = tokenizer.losses(); !losses.empty())
    prepared.notes.push_back(fmt::format("{}: tokens do not give back all of the text: {}", options.tokenizer, losses));
  TokenFileWriter writer(options.output, tokenizer, prepared.train, prepared.validation, sources(), prepared.entropy,
                         count_by_split(), options.conversations);
  write_tokens(writer, progress);
  if (!options.conversations.empty()) prepared.counted = counted_;
  writer.finish();
  return prepared;
}

}  // namespace cohort
