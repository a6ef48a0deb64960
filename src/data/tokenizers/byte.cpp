// 256 tokens, one per byte. Takes any file; the id is the byte.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/tokenizer_kind.hpp"

namespace cohort::tokenizers::byte {
namespace {

class ByteTokenizer : public Tokenizer {
 public:
  std::string_view kind() const override { return "byte"; }
  Count vocabulary_size() const override { return 256; }
  std::string serialise() const override { return nlohmann::json{{"kind", "byte"}}.dump(); }
  Count count(std::string_view text) const override { return static_cast<Count>(text.size()); }

  Count encode_some(std::string_view text, std::size_t& position, std::span<std::int32_t> ids, const TextSource&) const override {
    const std::size_t count = std::min(ids.size(), text.size() - position);
    for (std::size_t i = 0; i < count; ++i) ids[i] = static_cast<unsigned char>(text[position + i]);
    position += count;
    return static_cast<Count>(count);
  }

  std::string text_of(std::int32_t id) const override {
    check_id(id);
    return std::string(1, static_cast<char>(static_cast<unsigned char>(id)));
  }
};

// There is nothing to learn.
class Learner : public TokenizerLearner {
 public:
  void add(std::string_view, const TextSource&) override {}
  std::string counts() const override { return ""; }
  void merge_counts(std::string_view) override {}
  std::unique_ptr<Tokenizer> finish(const std::function<void(double)>&) override { return std::make_unique<ByteTokenizer>(); }
};

std::unique_ptr<TokenizerLearner> learner(const TokenizerLearning& wanted) {
  refuse_learning_options("byte", wanted);
  return std::make_unique<Learner>();
}
std::unique_ptr<Tokenizer> read(const nlohmann::json&) { return std::make_unique<ByteTokenizer>(); }

}  // namespace

const TokenizerKind& kind() {
  static const TokenizerKind kKind{.name = "byte", .help = "256 tokens, any file", .learner = learner, .read = read};
  return kKind;
}

}  // namespace cohort::tokenizers::byte
