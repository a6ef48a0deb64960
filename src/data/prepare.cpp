#include "data/prepare.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "data/id_bytes.hpp"
#include "data/prepare/assembly.hpp"
#include "data/prepare/count_texts.hpp"
#include "data/token_format.hpp"
#include "hdf5/hdf5.hpp"
#include "observe/flight_recorder.hpp"

namespace cohort {

namespace fs = std::filesystem;

namespace {

std::string hex_of(const ContentHash& hash) { return fmt::format("{:016x}{:016x}", hash.high, hash.low); }

// A text as it was when the inputs were looked for.
std::string identity_of(const InputFile& file) { return fmt::format("{}\n{} {}\n", file.path, file.size, file.modified); }

fs::path parts_folder(const std::string& output) { return output + ".parts"; }

// Whether a file in the folder of the parts is of a preparation: a hash, and what it is of.
bool is_ours(const std::string& name) {
  const std::size_t digits = std::min(name.find_first_not_of("0123456789abcdef"), name.size());
  const std::string_view rest = std::string_view(name).substr(digits);
  return digits == 32 && (rest.starts_with(".part") || rest.starts_with(".tokenizer"));
}

void check_conversation_options(const PrepareOptions& options) {
  if (options.conversations.empty()) return;
  const ChatTemplate& chat = chat_template_named(options.conversations, "--conversations");
  if (options.separator) fail(ExitCode::usage, "--split-documents is for texts; conversations are lines of JSON");
  const std::vector<std::string> missing = missing_special(chat, options.learning.special);
  if (find_tokenizer_kind(options.tokenizer) == nullptr || missing.empty()) return;
  fail(ExitCode::usage,
       "--conversations {}: the template needs special tokens that the new {} tokenizer would not have: learn them with "
       "--tokenizer bpe{}, or use --conversations plain, which needs none",
       chat.name, options.tokenizer, " --special-token '" + join(missing, "' --special-token '") + "'");
}

// Of roles, texts and what counts, however the line of JSON writes them. Sizes keep turns apart.
ContentHash hash_of_turns(const Conversation& turns) {
  std::string text;
  for (const Turn& turn : turns) {
    const bool silent = turn.role == Role::assistant && !turn.counts;
    text += fmt::format("{}{} {} {}", name_of(turn.role), silent ? " silent" : "", turn.content.size(), turn.content);
  }
  return hash_of(text);
}

// Texts in other files would be read as texts.
void require_lines(const InputList& inputs) {
  for (const InputFile& file : inputs.files) {
    if (!file.json_lines)
      fail(ExitCode::usage, "{}: --conversations reads lines of JSON, from files named .jsonl or .ndjson", file.path);
  }
}

}  // namespace

void check_prepare_options(const PrepareOptions& options) {
  if (options.inputs.empty()) fail(ExitCode::usage, "no text files were given; name at least one with --input");
  if (find_tokenizer_kind(options.tokenizer) == nullptr && !fs::exists(options.tokenizer)) {
    fail(ExitCode::usage,
         "unknown tokenizer '{}'; available: {}; or a path, to use the vocabulary of a token file, tokenizer.json, vocab.json, "
         "rank file or SentencePiece model",
         options.tokenizer, tokenizer_names());
  }
  if (!(options.validation > 0 && options.validation < 1)) {
    fail(ExitCode::usage, "the share of tokens for validation is {}; it must be between 0 and 1, for example 0.1",
         options.validation);
  }
  check_conversation_options(options);
  for (const std::string& input : options.inputs) {
    std::error_code ignored;  // a missing input is reported when it is read
    if (fs::equivalent(input, options.output, ignored)) {
      fail(ExitCode::usage, "the output '{}' is also an input and would be overwritten; give it another name", options.output);
    }
  }
  if (fs::is_directory(options.output)) {
    fail(ExitCode::io, "the output '{}' is a folder; name a file in it", options.output);
  }
}

InputList Preparation::find_inputs(const PrepareOptions& options) {
  const auto same = [](const fs::path& a, const fs::path& b) {
    std::error_code ignored;
    return fs::equivalent(a, b, ignored);
  };
  const fs::path parts = parts_folder(options.output);
  InputList inputs = list_inputs(options.inputs, [&](const std::string& path) {  // what this writes into a folder that it reads
    return same(path, options.output) || same(path, options.output + ".tmp") || same(fs::path(path).parent_path(), parts);
  });
  if (!options.conversations.empty()) require_lines(inputs);
  return inputs;
}

Preparation::Preparation(PrepareOptions options, InputList inputs)
    : options_(std::move(options)),
      inputs_(std::move(inputs)),
      plan_(plan_work(inputs_, options_.piece_bytes > 0 ? options_.piece_bytes : piece_bytes_for(inputs_.bytes()))),
      rules_{options_.field, options_.separator,
             options_.conversations.empty() ? nullptr : &chat_template_named(options_.conversations, "--conversations")},
      folder_(parts_folder(options_.output)),
      settings_(fmt::format("1\n{}\n{}\n{}\n{}\n", options_.field, options_.separator.has_value(),
                            options_.separator.value_or(""), plan_.piece_bytes)) {
  if (rules_.chat != nullptr) settings_ += fmt::format("conversations hashed by turns {}\n", rules_.chat->name);
  std::error_code error;  // none if it is there: other ranks make it, and a killed preparation left it
  fs::create_directory(folder_, error);
  if (error) fail(ExitCode::io, "cannot create the folder '{}': {}", folder_.string(), error.message());
}

void Preparation::lock() { lock_.emplace(folder_); }

Preparation::~Preparation() {
  lock_.reset();
  std::error_code ignored;
  fs::remove(folder_, ignored);  // which fails if something is in it
}

bool Preparation::learns() const { return find_tokenizer_kind(options_.tokenizer) != nullptr; }

fs::path Preparation::tokenizer_path() const {
  const TokenizerLearning& wanted = options_.learning;
  std::string text = fmt::format("{}{}\n{}\n{}\n{}\n", settings_, options_.tokenizer, wanted.vocabulary, wanted.pattern,
                                 join(wanted.special, "\n"));
  for (const InputFile& file : inputs_.files) text += identity_of(file);
  return folder_ / (hex_of(hash_of(text)) + ".tokenizer");
}

std::string Preparation::kept_tokenizer() const {
  return fs::exists(tokenizer_path()) ? read_file(tokenizer_path(), "tokenizer") : "";
}

std::unique_ptr<TokenizerLearner> Preparation::count(int rank, int ranks, const Progress& progress) const {
  std::unique_ptr<TokenizerLearner> learner = find_tokenizer_kind(options_.tokenizer)->learner(options_.learning);
  count_texts(inputs_, plan_, rules_, *learner, rank, ranks, progress);
  return learner;
}

std::string Preparation::learn(TokenizerLearner& counts_of_all, const Progress& progress) const {
  const std::string text = counts_of_all
                               .finish([&](double share) {
                                 FlightRecorder::of_process().beat();
                                 if (progress) progress(share);
                               })
                               ->serialise();
  write_file_atomically(tokenizer_path(), text);
  return text;
}

void Preparation::use_tokenizer(std::string_view serialised) {
  set_tokenizer(read_tokenizer(serialised, "the learned tokenizer"));
}

void Preparation::open_tokenizer() { set_tokenizer(cohort::open_tokenizer(options_.tokenizer, options_.learning)); }

void Preparation::set_tokenizer(std::unique_ptr<Tokenizer> tokenizer) {
  tokenizer_ = std::move(tokenizer);
  end_of_document_ =
      options_.end_of_document.empty() ? -1 : special_token(*tokenizer_, options_.end_of_document, "--end-of-document");
  if (rules_.chat != nullptr) ChatFormat(*rules_.chat, *tokenizer_);  // which fails if special tokens are missing
  settings_ += fmt::format("{}\n{}\n", hex_of(hash_of(tokenizer_->serialise())), end_of_document_);
}

fs::path Preparation::part_path(const WorkItem& item, Count number) const {
  std::string text = settings_;
  for (const PiecePlace& place : item.pieces)
    text += fmt::format("{}{}\n", identity_of(inputs_.files[place.file]), place.number + number);
  return folder_ / (hex_of(hash_of(text)) + ".part");
}

// Ids as the token file stores them.
void Preparation::append(std::span<const std::int32_t> ids, EncodedPart& part, EncodedDocument& document) const {
  const Bytes width = hdf5::size_of(token_format::element_for(tokenizer_->vocabulary_size()));
  const std::size_t before = part.ids.size();
  part.ids.resize(before + ids.size() * static_cast<std::size_t>(width));
  store_ids(ids, width, part.ids.data() + before);
  document.tokens += static_cast<Count>(ids.size());
}

void Preparation::encode_text(std::string_view text, const TextSource& source, std::span<std::int32_t> block, EncodedPart& part,
                              EncodedDocument& document) const {
  for (std::size_t position = 0; position < text.size();) {
    const auto count = static_cast<std::size_t>(tokenizer_->encode_some(text, position, block, source));
    append(block.first(count), part, document);
  }
}

void Preparation::encode_conversation(std::string_view line, EncodedPart& part, EncodedDocument& document) const {
  const Conversation turns = conversation_in_json_line(line);
  const ChatTokens tokens = ChatFormat(*rules_.chat, *tokenizer_).encode(turns);
  document.hash = hash_of_turns(turns);
  append(tokens.ids, part, document);
  part.counted.insert(part.counted.end(), tokens.counted.begin(), tokens.counted.end());
}

EncodedPart Preparation::encode_part(PartTexts& texts, const WorkItem& item, Count number, std::span<std::int32_t> block,
                                     bool& there) const {
  EncodedPart part;
  const auto encode = [&](std::string_view text, const TextSource& source, bool starts, bool ends) {
    EncodedDocument document{.starts = starts, .ends = ends};
    if (rules_.chat != nullptr) {
      encode_conversation(text, part, document);
    } else {
      document.hash = hash_of(text);
      encode_text(text, source, block, part, document);
    }
    if (ends && end_of_document_ >= 0) {
      append(std::span(&end_of_document_, 1), part, document);
      if (rules_.chat != nullptr) part.counted.push_back(0);
    }
    part.tokens += document.tokens;
    part.documents.push_back(document);
  };
  there = texts.visit(item, number, encode, [&](const PieceFacts& facts) { part.pieces.push_back(facts); });
  part.last = texts.last();
  return part;
}

bool Preparation::is_done(const WorkItem& item, Count number, bool& last) const {
  const std::optional<EncodedPart> part = read_encoded_part(part_path(item, number));
  if (part) last = part->last;
  return part.has_value();
}

void Preparation::encode(int rank, int ranks, const Progress& progress) const {
  const std::vector<WorkShare> shares = deal_work(plan_, rank, ranks);
  PartTexts texts(inputs_, plan_, rules_);
  std::vector<std::int32_t> block(rules_.chat == nullptr ? tokenizer_->most_tokens(Tokenizer::kLeastBlock) : 0);
  Bytes passed = 0;
  for (std::size_t i = 0; i < plan_.items.size(); ++i) {
    const WorkItem& item = plan_.items[i];
    for (Count number = shares[i].first; number >= 0; number += shares[i].stride) {
      bool last = false;
      if (!is_done(item, number, last)) {
        bool there = true;
        const EncodedPart part = encode_part(texts, item, number, block, there);
        if (!there) break;
        write_encoded_part(part_path(item, number), part);
        last = part.last;
      }
      if (!item.open_ended || last) break;
    }
    passed += item.bytes;
    if (progress) progress(static_cast<double>(passed) / static_cast<double>(plan_.bytes));
  }
}

Prepared Preparation::assemble(const Progress& progress) const {
  const auto remove_parts = [&] {
    std::error_code ignored;  // whatever becomes of them, the token file is there, or cannot be made of them
    std::vector<fs::path> parts;
    for (fs::directory_iterator entry(folder_, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
      if (is_ours(entry->path().filename().string())) parts.push_back(entry->path());
    }
    for (const fs::path& part : parts) fs::remove(part, ignored);
    fs::remove(folder_, ignored);  // which fails if something of others is in it
  };
  try {
    const Prepared prepared = Assembly(*this).run(progress);
    remove_parts();
    return prepared;
  } catch (const Error& error) {
    if (error.code() == ExitCode::data) remove_parts();
    throw;
  }
}

Prepared prepare_tokens(const PrepareOptions& options, const Progress& progress) {
  check_prepare_options(options);
  Preparation preparation(options, Preparation::find_inputs(options));
  preparation.lock();
  if (preparation.learns()) {
    std::string tokenizer = preparation.kept_tokenizer();
    if (tokenizer.empty()) tokenizer = preparation.learn(*preparation.count(0, 1, {}), {});
    preparation.use_tokenizer(tokenizer);
  } else {
    preparation.open_tokenizer();
  }
  preparation.encode(0, 1, progress);
  return preparation.assemble({});
}

}  // namespace cohort
