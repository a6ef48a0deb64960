// Byte-level BPE (data/bpe). Takes every string of bytes and gives it back, but that a model may normalize characters; bytes that
// are not UTF-8 are pieces of their own.
// Special tokens are never made of text: a text that spells one is text (Tokenizer::encode_with_special() if that is asked for).
// Serialised: {"kind": "bpe", "pattern": "...", "tokens": ["!", ...], "merges": [[0, 1], ...] or null, "whole_pieces": false,
// "special": [["<|endoftext|>", 50256]]}, with tokens in byte letters; and "normalizer": "NFC" where there is one.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "data/bpe/bpe_model.hpp"
#include "data/bpe/bpe_trainer.hpp"
#include "data/bpe/byte_letters.hpp"
#include "data/bpe/encoder.hpp"
#include "data/tokenizer_kind.hpp"
#include "data/unicode_nfc.hpp"

namespace cohort::tokenizers::bpe {
namespace {

constexpr const char* kNfc = "NFC";

class BpeTokenizer : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeModel model) : model_(std::move(model)), encoder_(model_.vocabulary) {}

  std::string_view kind() const override { return "bpe"; }
  Count vocabulary_size() const override { return model_.vocabulary.size(); }
  const BpeModel* bpe() const override { return &model_; }
  std::vector<SpecialToken> special_tokens() const override { return model_.vocabulary.special(); }

  std::string serialise() const override {
    const BpeVocabulary& vocabulary = model_.vocabulary;
    nlohmann::ordered_json json{
        {"kind", "bpe"}, {"pattern", model_.pattern.expression()}, {"whole_pieces", vocabulary.whole_pieces()}};
    if (model_.nfc) json["normalizer"] = kNfc;
    json["special"] = nlohmann::ordered_json::array();
    for (const SpecialToken& token : vocabulary.special())
      json["special"].push_back(nlohmann::ordered_json::array({token.text, token.id}));
    json["tokens"] = nlohmann::ordered_json::array();
    for (const std::string& token : vocabulary.tokens()) json["tokens"].push_back(to_byte_letters(token));
    json["merges"] = vocabulary.merges() ? nlohmann::ordered_json(*vocabulary.merges()) : nlohmann::ordered_json();
    return json.dump();
  }

  Count count(std::string_view text) const override {
    std::vector<TokenId> block(most_tokens(std::min(text.size(), kLeastBlock)));
    Count count = 0;
    for (std::size_t position = 0; position < text.size();) count += encode_some(text, position, block, "text");
    return count;
  }

  std::size_t most_tokens(std::size_t bytes) const override { return model_.nfc ? kMostNfcGrowth * bytes : bytes; }

  Count encode_some(std::string_view text, std::size_t& position, std::span<std::int32_t> ids, const TextSource&) const override {
    if (!model_.nfc) return encode_pieces(text, position, ids);
    const std::string_view part = text.substr(position, part_bytes(text.substr(position), ids.size() / kMostNfcGrowth));
    const std::string normal = to_nfc(part);
    std::size_t end = 0;
    const Count count = encode_pieces(normal, end, ids);
    COHORT_CHECK(end == normal.size(), "{} bytes in form C do not fit {} tokens", normal.size(), ids.size());
    position += part.size();
    return count;
  }

  std::string losses() const override { return model_.nfc ? "other spellings of a character than the composed one (NFC)" : ""; }

  std::string text_of(std::int32_t id) const override {
    check_id(id);
    for (const SpecialToken& token : model_.vocabulary.special()) {
      if (token.id == id) return token.text;
    }
    return model_.vocabulary.tokens()[static_cast<std::size_t>(id)];
  }

 private:
  // The first bytes of a text that are normalized together, at most `most`: up to a place where pieces end if possible, else to a
  // character.
  static std::size_t part_bytes(std::string_view text, std::size_t most) {
    if (text.size() <= most) return text.size();
    const std::size_t found = cut_between_pieces(text.substr(0, most), most - most / 4);
    if (found < most) return found;
    while (most > 1 && (static_cast<unsigned char>(text[most]) & 0xC0u) == 0x80u) --most;
    return most;
  }

  // As encode_some(), of a text that needs no more done to it. Stops where a piece might have more tokens than there is room for.
  Count encode_pieces(std::string_view text, std::size_t& position, std::span<std::int32_t> ids) const {
    std::span<std::int32_t> room = ids;
    while (position < text.size()) {
      const std::size_t end = model_.pattern.end_of_piece(text, position);
      if (end - position > room.size()) break;
      room = room.subspan(encoder_.encode_piece(text.substr(position, end - position), room));
      position = end;
    }
    COHORT_CHECK(room.size() < ids.size() || position == text.size(), "a block of {} tokens is too small for a piece",
                 ids.size());
    return static_cast<Count>(ids.size() - room.size());
  }

  BpeModel model_;
  mutable BpeEncoder encoder_;  // remembers words; see Tokenizer on threads
};

class Learner : public TokenizerLearner {
 public:
  explicit Learner(const TokenizerLearning& wanted)
      : wanted_(wanted), pattern_(wanted.pattern.empty() ? "gpt-2" : wanted.pattern) {
    if (wanted_.vocabulary < 256 + static_cast<Count>(wanted_.special.size()))
      fail(ExitCode::usage, "a byte-level vocabulary of {}: give it a size of 256 (the bytes) and more, as in --vocabulary 8192",
           wanted_.vocabulary);
  }

  void add(std::string_view text, const TextSource&) override { count_pieces(pattern_, text, counts_); }
  std::string counts() const override { return pack_counts(counts_); }
  void merge_counts(std::string_view of_rank) override { add_packed_counts(of_rank, counts_); }
  std::unique_ptr<Tokenizer> finish(const std::function<void(double)>& progress) override {
    BpeVocabulary vocabulary = train_bpe(counts_, {.vocabulary = wanted_.vocabulary, .special = wanted_.special}, progress);
    return std::make_unique<BpeTokenizer>(BpeModel{std::move(pattern_), std::move(vocabulary)});
  }

 private:
  TokenizerLearning wanted_;
  SplitPattern pattern_;
  PieceCounts counts_;
};

std::unique_ptr<TokenizerLearner> learner(const TokenizerLearning& wanted) { return std::make_unique<Learner>(wanted); }

std::unique_ptr<Tokenizer> read(const nlohmann::json& serialised) {
  const bool nfc = serialised.contains("normalizer");
  if (nfc && serialised["normalizer"] != kNfc) return nullptr;
  if (nfc) require_nfc("a tokenizer");
  try {
    std::vector<std::string> tokens;
    for (const nlohmann::json& letters : serialised.at("tokens")) {
      std::optional<std::string> bytes = from_byte_letters(letters.get_ref<const std::string&>());
      if (!bytes) return nullptr;
      tokens.push_back(std::move(*bytes));
    }
    std::optional<std::vector<BpeVocabulary::Pair>> merges;
    if (!serialised.at("merges").is_null()) merges = serialised.at("merges").get<std::vector<BpeVocabulary::Pair>>();
    std::vector<SpecialToken> special;
    for (const nlohmann::json& token : serialised.at("special")) {
      if (!token.at(1).is_number_unsigned() || token.at(1) >= kMostTokens) return nullptr;
      special.push_back({token.at(0).get<std::string>(), token.at(1).get<TokenId>()});
    }
    return std::make_unique<BpeTokenizer>(BpeModel{SplitPattern(serialised.at("pattern").get<std::string>()),
                                                   BpeVocabulary(std::move(tokens), std::move(merges), std::move(special),
                                                                 serialised.at("whole_pieces").get<bool>(), "tokenizer"),
                                                   nfc});
  } catch (const nlohmann::json::exception&) {
    return nullptr;
  } catch (const Error&) {
    return nullptr;
  }
}

// tokenizer.json; a folder with one, or with vocab.json and merges.txt; cl100k_base.tiktoken and the like.
std::unique_ptr<Tokenizer> open(const std::filesystem::path& path, const TokenizerLearning& wanted) {
  namespace fs = std::filesystem;
  if (path.extension() == ".tiktoken" && !wanted.pattern.empty()) {
    std::vector<SpecialToken> special;  // behind the ranks
    BpeModel model = read_tiktoken(path, wanted.pattern, {});
    for (const std::string& text : wanted.special)
      special.push_back({text, static_cast<TokenId>(model.vocabulary.size() + static_cast<Count>(special.size()))});
    return std::make_unique<BpeTokenizer>(read_tiktoken(path, wanted.pattern, std::move(special)));
  }
  refuse_learning_options("in " + path.string(), wanted);
  if (fs::is_directory(path)) {
    if (fs::exists(path / "tokenizer.json")) return std::make_unique<BpeTokenizer>(read_tokenizer_json(path / "tokenizer.json"));
    if (fs::exists(path / "vocab.json") && fs::exists(path / "merges.txt"))
      return std::make_unique<BpeTokenizer>(read_vocab_and_merges(path / "vocab.json", path / "merges.txt", "gpt-2"));
    return nullptr;
  }
  if (path.extension() == ".json") return std::make_unique<BpeTokenizer>(read_tokenizer_json(path));
  if (path.extension() == ".tiktoken") return std::make_unique<BpeTokenizer>(read_published_tiktoken(path));
  return nullptr;
}

}  // namespace

const TokenizerKind& kind() {
  static const TokenizerKind kKind{.name = "bpe",
                                   .help = "byte-level BPE of a size that you choose, any file",
                                   .learner = learner,
                                   .read = read,
                                   .open = open};
  return kKind;
}

}  // namespace cohort::tokenizers::bpe
