// One token per Unicode character (code point) that occurs in the text it was learned from, in the order of the code points.
// Takes valid UTF-8 only. Serialised: {"kind": "char", "code_points": [10, 32, 33, ...]}.
#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "data/tokenizer_kind.hpp"
#include "data/utf8.hpp"

namespace cohort::tokenizers::character {
namespace {

class CharTokenizer : public Tokenizer {
 public:
  // `code_points`: valid, ascending, at least one.
  explicit CharTokenizer(std::vector<std::uint32_t> code_points)
      : code_points_(std::move(code_points)), ids_(code_points_.back() + std::size_t{1}, -1) {
    for (std::size_t i = 0; i < code_points_.size(); ++i) ids_[code_points_[i]] = static_cast<std::int32_t>(i);
  }

  std::string_view kind() const override { return "char"; }
  Count vocabulary_size() const override { return static_cast<Count>(code_points_.size()); }
  std::string serialise() const override {
    return nlohmann::ordered_json{{"kind", "char"}, {"code_points", code_points_}}.dump();
  }
  // All bytes but those that go on with a character.
  Count count(std::string_view text) const override {
    return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; });
  }

  Count encode_some(std::string_view text, std::size_t& position, std::span<std::int32_t> ids,
                    const TextSource& source) const override {
    std::size_t count = 0;
    while (count < ids.size() && position < text.size()) {
      const std::size_t offset = position;
      const std::uint32_t code_point = next_code_point(text, position, source);
      const std::int32_t id = code_point < ids_.size() ? ids_[code_point] : -1;
      if (id < 0) {
        fail(ExitCode::data,
             "{}: the character {} at byte {} is not in the vocabulary of {} characters; use only characters that occur in the "
             "text it was learned from",
             source.name, describe_code_point(code_point), source.first_byte + static_cast<Bytes>(offset), code_points_.size());
      }
      ids[count++] = id;
    }
    return static_cast<Count>(count);
  }

  std::string text_of(std::int32_t id) const override {
    check_id(id);
    std::string text;
    append_code_point(text, code_points_[static_cast<std::size_t>(id)]);
    return text;
  }

 private:
  std::vector<std::uint32_t> code_points_;
  std::vector<std::int32_t> ids_;  // by code point; -1 = not in the vocabulary
};

bool is_valid_vocabulary(const std::vector<std::uint32_t>& code_points) {
  if (code_points.empty() || code_points.back() >= kCodePoints) return false;
  const bool surrogate =
      std::any_of(code_points.begin(), code_points.end(), [](std::uint32_t c) { return c >= 0xD800 && c < 0xE000; });
  return !surrogate && std::adjacent_find(code_points.begin(), code_points.end(), std::greater_equal<>()) == code_points.end();
}

class Learner : public TokenizerLearner {
 public:
  void add(std::string_view text, const TextSource& source) override {
    for (std::size_t position = 0; position < text.size();) seen_[next_code_point(text, position, source)] = true;
  }
  std::string counts() const override {
    std::string text;
    for (const std::uint32_t c : code_points()) append_code_point(text, c);
    return text;
  }
  void merge_counts(std::string_view of_rank) override { add(of_rank, "the characters of another rank"); }
  std::unique_ptr<Tokenizer> finish(const std::function<void(double)>&) override {
    std::vector<std::uint32_t> found = code_points();
    if (found.empty()) fail(ExitCode::data, "the text is empty: there are no characters to learn a vocabulary from");
    return std::make_unique<CharTokenizer>(std::move(found));
  }

 private:
  std::vector<std::uint32_t> code_points() const {
    std::vector<std::uint32_t> found;
    for (std::uint32_t c = 0; c < kCodePoints; ++c) {
      if (seen_[c]) found.push_back(c);
    }
    return found;
  }

  std::vector<bool> seen_ = std::vector<bool>(kCodePoints);
};

std::unique_ptr<TokenizerLearner> learner(const TokenizerLearning& wanted) {
  refuse_learning_options("char", wanted);
  return std::make_unique<Learner>();
}

std::unique_ptr<Tokenizer> read(const nlohmann::json& serialised) {
  const nlohmann::json code_points = serialised.value("code_points", nlohmann::json());
  const bool numbers =
      code_points.is_array() && std::all_of(code_points.begin(), code_points.end(), [](const nlohmann::json& number) {
        return number.is_number_unsigned() && number.get<std::uint64_t>() < kCodePoints;
      });
  std::vector<std::uint32_t> vocabulary;
  if (numbers) vocabulary = code_points.get<std::vector<std::uint32_t>>();
  if (!is_valid_vocabulary(vocabulary)) return nullptr;
  return std::make_unique<CharTokenizer>(std::move(vocabulary));
}

}  // namespace

const TokenizerKind& kind() {
  static const TokenizerKind kKind{
      .name = "char", .help = "one token per character of a UTF-8 text", .learner = learner, .read = read};
  return kKind;
}

}  // namespace cohort::tokenizers::character
