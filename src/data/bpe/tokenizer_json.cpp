// Hugging Face's tokenizer.json, read and written.
#include <algorithm>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/strict_json.hpp"
#include "data/bpe/bpe_model.hpp"
#include "data/bpe/byte_letters.hpp"
#include "data/bpe/encoder.hpp"
#include "data/bpe/json_parts.hpp"
#include "data/unicode_nfc.hpp"

namespace cohort {
namespace {

using Json = nlohmann::json;

constexpr int kTokenizerDepth = 16;

// A place in the file, for messages.
struct Place {
  std::string where;  // "tokenizer.json: model"
  const Json& json;

  Place operator[](const char* key) const {
    static const Json kNothing;
    return {fmt::format("{}{}{}", where, where.ends_with(": ") ? "" : ".", key),
            json.is_object() && json.contains(key) ? json[key] : kNothing};
  }
  bool is_absent() const { return json.is_null(); }
  bool says(const char* text) const { return json.is_string() && json.get_ref<const std::string&>() == text; }
  bool is_true() const { return json.is_boolean() && json.get<bool>(); }
  [[noreturn]] void refuse(std::string_view why) const { fail(ExitCode::data, "{} {}", where, why); }
};

// {"type": "Split", "pattern": {"Regex": "..."}, "behavior": "Isolated"}
std::string read_split(const Place& split) {
  if (!split["behavior"].says("Isolated") || split["invert"].is_true())
    split.refuse("is not a split whose pieces are the matches (behavior \"Isolated\"): Cohort has no other");
  const Place regex = split["pattern"]["Regex"];
  if (!regex.json.is_string()) regex.refuse("is not a regular expression");
  return regex.json.get<std::string>();
}

// The pattern of a ByteLevel step, alone or after a Split.
std::string read_pattern(const Place& step) {
  if (step["type"].says("Sequence") && step["pretokenizers"].json.is_array() && step["pretokenizers"].json.size() == 2) {
    const Place list = step["pretokenizers"];
    const Place split{list.where + "[0]", list.json[0]}, bytes{list.where + "[1]", list.json[1]};
    if (split["type"].says("Split") && bytes["type"].says("ByteLevel") && !bytes["use_regex"].is_true() &&
        !bytes["add_prefix_space"].is_true())
      return read_split(split);
  }
  if (!step["type"].says("ByteLevel"))
    step.refuse(
        "is not byte-level (ByteLevel, or Split and ByteLevel): Cohort reads byte-level BPE; SentencePiece models otherwise");
  if (step["add_prefix_space"].is_true()) step["add_prefix_space"].refuse("is true: Cohort adds nothing to a text");
  if (step["use_regex"].json.is_boolean() && !step["use_regex"].is_true())
    step["use_regex"].refuse("is false without a Split before it");
  return std::string(named_split_pattern("gpt-2"));
}

std::vector<BpeVocabulary::Pair> read_merges(const Place& merges, const BpeTokens& tokens) {
  if (!merges.json.is_array()) merges.refuse("is not a list of merges");
  std::vector<BpeVocabulary::Pair> pairs;
  pairs.reserve(merges.json.size());
  for (std::size_t i = 0; i < merges.json.size(); ++i) {
    const Json& one = merges.json[i];
    const std::string where = fmt::format("{}[{}]", merges.where, i);
    std::string a, b;
    if (one.is_string()) {  // before version 0.20 of tokenizers: "a b"
      const auto& text = one.get_ref<const std::string&>();
      const std::size_t space = text.find(' ');
      a = text.substr(0, space);
      b = space == std::string::npos ? "" : text.substr(space + 1);
    } else if (one.is_array() && one.size() == 2 && one[0].is_string() && one[1].is_string()) {
      a = one[0].get<std::string>();
      b = one[1].get<std::string>();
    }
    const std::optional<std::string> left = from_byte_letters(a), right = from_byte_letters(b);
    if (!left || !right || left->empty() || right->empty())
      fail(ExitCode::data, "{}: {} is not a pair of tokens", where, one.dump());
    pairs.emplace_back(tokens.id_of(*left, where), tokens.id_of(*right, where));
  }
  return pairs;
}

std::vector<SpecialToken> read_added(const Place& added) {
  std::vector<SpecialToken> special;
  if (added.is_absent()) return special;
  if (!added.json.is_array()) added.refuse("is not a list of tokens");
  for (std::size_t i = 0; i < added.json.size(); ++i) {
    const Place one{fmt::format("{}[{}]", added.where, i), added.json[i]};
    if (!one["content"].json.is_string() || !one["id"].json.is_number_unsigned())
      one.refuse("is not a token with content and id");
    if (one["id"].json.get<std::uint64_t>() >= static_cast<std::uint64_t>(kMostTokens))
      one.refuse(fmt::format("has an id that is not below {}", kMostTokens));
    special.push_back({one["content"].json.get<std::string>(), one["id"].json.get<TokenId>()});
  }
  return special;
}

void require_plain_bpe(const Place& model) {
  if (!model["type"].says("BPE")) model["type"].refuse("is not \"BPE\": Cohort reads byte-level BPE");
  for (const char* name : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"}) {
    const Place key = model[name];
    const bool is_nothing = key.is_absent() || (key.json.is_string() && key.json.get_ref<const std::string&>().empty());
    if (!is_nothing) key.refuse("is set, which byte-level BPE has no use for: it would give other ids");
  }
  if (model["byte_fallback"].is_true())
    model["byte_fallback"].refuse("is true: this is a SentencePiece model in Hugging Face's form");
}

// Whether a normalizer is NFC, and not absent.
bool is_nfc(const Place& normalizer) {
  if (normalizer.is_absent()) return false;
  if (!normalizer["type"].says("NFC"))
    normalizer.refuse("is set: Cohort knows the normalizer NFC, and encodes text as it is otherwise");
  require_nfc(normalizer.where);
  return true;
}

// The tokens of the vocabulary that are added ones: they have no bytes of their own.
void take_added(BpeTokens& tokens, const std::vector<SpecialToken>& special) {
  for (const SpecialToken& token : special) {
    const auto id = static_cast<std::size_t>(token.id);
    if (id < tokens.bytes.size() && tokens.bytes[id] == token.text) tokens.bytes[id].clear();
  }
}

// Added tokens may stand in model.vocab; those which don't begin where it ends, so that there are no holes.
Json without_added(Json vocab, std::vector<SpecialToken> special) {
  std::sort(special.begin(), special.end(), [](const SpecialToken& a, const SpecialToken& b) { return a.id > b.id; });
  for (const SpecialToken& token : special) {
    if (vocab.contains(token.text) && vocab[token.text] == token.id && static_cast<std::size_t>(token.id) + 1 == vocab.size())
      vocab.erase(token.text);
  }
  return vocab;
}

}  // namespace

BpeModel read_tokenizer_json(const std::filesystem::path& file) {
  const Json json = parse_strict_json(read_file(file, "tokenizer"), file.string(), kTokenizerDepth, ExitCode::data);
  const Place root{file.string() + ": ", json};
  const bool nfc = is_nfc(root["normalizer"]);
  const Place model = root["model"];
  require_plain_bpe(model);
  const std::string pattern = read_pattern(root["pre_tokenizer"]);
  std::vector<SpecialToken> special = read_added(root["added_tokens"]);
  BpeTokens tokens = read_token_object(without_added(model["vocab"].json, special), model["vocab"].where);
  take_added(tokens, special);
  std::vector<BpeVocabulary::Pair> merges = read_merges(model["merges"], tokens);
  return {SplitPattern(pattern),
          BpeVocabulary(std::move(tokens.bytes), std::move(merges), std::move(special), model["ignore_merges"].is_true(),
                        file.string()),
          nfc};
}

std::string to_tokenizer_json(const BpeModel& model) {
  using Out = nlohmann::ordered_json;
  const BpeVocabulary& vocabulary = model.vocabulary;
  Out merges = Out::array();
  for (const auto& [a, b] : listed_merges(vocabulary, "tokenizer.json")) {
    // As one text, which every version of tokenizers reads: byte letters have no space.
    merges.push_back(to_byte_letters(vocabulary.tokens()[static_cast<std::size_t>(a)]) + " " +
                     to_byte_letters(vocabulary.tokens()[static_cast<std::size_t>(b)]));
  }
  Out added = Out::array();
  for (const SpecialToken& token : vocabulary.special()) {
    added.push_back({{"id", token.id},
                     {"content", token.text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const Out bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  const Out split{
      {"type", "Split"}, {"pattern", {{"Regex", model.pattern.expression()}}}, {"behavior", "Isolated"}, {"invert", false}};
  const Out json{{"version", "1.0"},
                 {"truncation", nullptr},
                 {"padding", nullptr},
                 {"added_tokens", added},
                 {"normalizer", model.nfc ? Out{{"type", "NFC"}} : Out()},
                 {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}}},
                 {"post_processor", nullptr},
                 {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}},
                 {"model",
                  {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", false},
                   {"byte_fallback", false},
                   {"ignore_merges", vocabulary.whole_pieces()},
                   {"vocab", token_object(vocabulary, false)},
                   {"merges", merges}}}};
  return json.dump();
}

}  // namespace cohort
