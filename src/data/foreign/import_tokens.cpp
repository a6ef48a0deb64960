#include "data/foreign/import_tokens.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "data/document_counter.hpp"

namespace cohort {
namespace {

constexpr Count kForeignBlock = 1 << 16;  // ids read at a time

// Calls visit with the ids of all files, cut where documents begin.
class ForeignDocuments {
 public:
  using Visit = std::function<void(std::span<const std::int32_t> ids, bool starts)>;

  ForeignDocuments(const std::vector<ForeignTokens>& files, Count vocabulary, std::optional<std::int32_t> end_of_document)
      : files_(files), vocabulary_(vocabulary), end_of_document_(end_of_document) {}

  void visit_all(const Visit& visit) const {
    for (const ForeignTokens& file : files_) visit_file(file, visit);
  }

 private:
  void visit_file(const ForeignTokens& file, const Visit& visit) const {
    const std::vector<std::uint64_t>& documents = file.documents();
    std::size_t next = 1;  // document that has not begun
    bool starts = true;
    std::vector<std::int32_t> ids;
    for (Count begin = 0; begin < file.tokens(); begin += static_cast<Count>(ids.size())) {
      ids.resize(static_cast<std::size_t>(std::min(kForeignBlock, file.tokens() - begin)));
      file.read(begin, ids, vocabulary_);
      for (std::size_t at = 0; at < ids.size();) {
        std::size_t end = ids.size();
        bool next_starts = false;
        if (next < documents.size() && documents[next] <= static_cast<std::uint64_t>(begin) + end) {
          end = static_cast<std::size_t>(documents[next++] - static_cast<std::uint64_t>(begin));
          next_starts = true;
        }
        if (end_of_document_) {
          const auto found = std::find(ids.begin() + static_cast<std::ptrdiff_t>(at),
                                       ids.begin() + static_cast<std::ptrdiff_t>(end), *end_of_document_);
          const auto behind = static_cast<std::size_t>(found - ids.begin()) + 1;
          if (behind <= end) {
            if (next_starts && behind < end) --next;  // it is still to come
            end = behind;
            next_starts = true;
          }
        }
        visit(std::span(ids).subspan(at, end - at), starts);
        starts = next_starts;
        at = end;
      }
    }
  }

  const std::vector<ForeignTokens>& files_;
  Count vocabulary_;
  std::optional<std::int32_t> end_of_document_;
};

std::optional<std::int32_t> end_of_document(const ImportOptions& options, const Tokenizer& tokenizer) {
  if (options.end_of_document.empty()) return std::nullopt;
  return special_token(tokenizer, options.end_of_document, "--end-of-document");
}

Count open_all(const std::vector<std::string>& paths, const ImportOptions& options, const Tokenizer& tokenizer,
               std::vector<ForeignTokens>& files) {
  Count tokens = 0;
  for (const std::string& path : paths) {
    files.emplace_back(path, options.format);
    const ForeignTokens& file = files.back();
    if (file.is_narrow() && tokenizer.vocabulary_size() > 65536) {
      fail(ExitCode::data,
           "{}: its ids have 16 bits, too few for the {} of the {} tokenizer: ids above 65535 were lost when it was "
           "written; write it again with 32 bits",
           file.path(), tokenizer.vocabulary_size(), tokenizer.kind());
    }
    tokens += file.tokens();
  }
  return tokens;
}

}  // namespace

Imported import_tokens(const ImportOptions& options, const Tokenizer& tokenizer, const Progress& progress) {
  if (!(options.validation > 0 && options.validation < 1)) {
    fail(ExitCode::usage, "the share of tokens for validation is {}; it must be between 0 and 1, for example 0.1",
         options.validation);
  }
  std::vector<ForeignTokens> files;
  Imported imported;
  imported.train = open_all(options.inputs, options, tokenizer, files);
  imported.validation = open_all(options.validation_inputs, options, tokenizer, files);
  const Count tokens = imported.train + imported.validation;
  if (options.validation_inputs.empty()) {
    imported.validation = static_cast<Count>(std::llround(static_cast<double>(tokens) * options.validation));
    imported.train = tokens - imported.validation;
  }
  const ForeignDocuments documents(files, tokenizer.vocabulary_size(), end_of_document(options, tokenizer));
  Count done = 0;  // of both passes
  const auto advance = [&](std::size_t more) {
    done += static_cast<Count>(more);
    if (progress) progress(static_cast<double>(done) / static_cast<double>(2 * tokens));
  };
  DocumentCounter counter(imported.train);
  documents.visit_all([&](std::span<const std::int32_t> ids, bool starts) {
    if (starts) {
      counter.begin(done);
      ++imported.documents;
    }
    advance(ids.size());
  });
  std::vector<TokenSource> sources;
  for (const ForeignTokens& file : files) {
    sources.push_back({file.path(), file.bytes()});
    const std::string format(name_of(file.format()));
    if (std::find(imported.formats.begin(), imported.formats.end(), format) == imported.formats.end())
      imported.formats.push_back(format);
  }
  TokenFileWriter writer(options.output, tokenizer, imported.train, imported.validation, sources, std::nullopt,
                         counter.finish(tokens));
  documents.visit_all([&](std::span<const std::int32_t> ids, bool starts) {
    if (starts) writer.begin_document();
    writer.append(ids);
    advance(ids.size());
  });
  writer.finish();
  return imported;
}

}  // namespace cohort
