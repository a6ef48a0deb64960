// Models of SentencePiece, by its library: the ids are those of its own programs. The text must be UTF-8. What of it comes back
// depends on the model: see losses(). Control tokens such as </s> are never made of text; pieces that the model's maker has
// defined are, as its library has it. Serialised: {"kind": "sentencepiece", "model": "BASE64 of the model file"}.
//
// A text of more than a MiB (kLeastBlock), and what Cohort has of a document in parts, is cut at line ends. The ids are those of
// the whole, since no piece of a usual model spans a line end; but a unigram model adds up its scores in fp32 along the text, so
// that of two ways with the same score another may win. A space belongs before the start of a document alone, unless the model
// takes line ends for spaces and trims them.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "data/base64.hpp"
#include "data/sentencepiece/sentencepiece_model.hpp"
#include "data/tokenizer_kind.hpp"
#include "data/utf8.hpp"

namespace cohort::tokenizers::sentencepiece {
namespace {

// How the library writes a space within pieces.
constexpr std::string_view kSpace = "\u2581";
// Tokens of a byte, at most: NFKC makes 18 characters of U+FDFA, and pieces may be single bytes.
constexpr std::size_t kMostPerByte = 16;

class SentencePieceTokenizer : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(std::unique_ptr<SentencePieceModel> model)
      : model_(std::move(model)), trims_(model_->encode("a ", true) == model_->encode("a", true)) {}

  std::string_view kind() const override { return "sentencepiece"; }
  Count vocabulary_size() const override { return model_->pieces(); }

  std::string serialise() const override {
    return nlohmann::ordered_json{{"kind", "sentencepiece"}, {"model", to_base64(model_->proto())}}.dump();
  }

  Count count(std::string_view text) const override { return static_cast<Count>(encode(text).size()); }

  std::vector<SpecialToken> special_tokens() const override {
    std::vector<SpecialToken> special;
    for (std::int32_t id = 0; id < model_->pieces(); ++id) {
      if (model_->is_control(id)) special.push_back({model_->piece(id), id});
    }
    return special;
  }

  std::size_t most_tokens(std::size_t bytes) const override { return kMostPerByte * (bytes + 1); }

  Count encode_some(std::string_view text, std::size_t& position, std::span<std::int32_t> ids,
                    const TextSource& source) const override {
    const std::string_view part = text.substr(position, part_bytes(text.substr(position), ids.size() / kMostPerByte - 1));
    for (std::size_t at = position; at < position + part.size();) next_code_point(text, at, source);
    const std::vector<std::int32_t> found = model_->encode(part, (position == 0 && source.starts) || trims_);
    if (found.size() > ids.size())
      fail(ExitCode::data, "{}: the SentencePiece model makes {} tokens of {} bytes", source.name, found.size(), part.size());
    std::copy(found.begin(), found.end(), ids.begin());
    position += part.size();
    return static_cast<Count>(found.size());
  }

  std::string text_of(std::int32_t id) const override {
    check_id(id);
    if (model_->is_control(id)) return model_->piece(id);
    if (model_->is_unknown(id)) return model_->decode({&id, 1});
    if (model_->is_byte(id)) return std::string(1, static_cast<char>(std::stoi(model_->piece(id).substr(1), nullptr, 0)));
    const std::string& piece = model_->piece(id);
    std::string text;
    for (std::size_t at = 0; at < piece.size();) {
      const bool space = std::string_view(piece).substr(at).starts_with(kSpace);
      text += space ? ' ' : piece[at];
      at += space ? kSpace.size() : 1;
    }
    return text;
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    for (const std::int32_t id : ids) check_id(id);
    return model_->decode(ids);
  }

  // Tried out, since a model does not say what its rules do to texts.
  std::string losses() const override {
    std::vector<std::string> lost;
    const auto lose = [&](const char* text, const char* what) {
      if (model_->decode(model_->encode(text, true)) != text) lost.emplace_back(what);
    };
    lose("a  b", "runs of spaces");
    lose("a ", "spaces at the end");
    lose("a\nb", "line ends");
    lose("a\tb", "tabs");
    lose("\uFB01\u2460", "compatibility characters (NFKC)");
    lose("\U00010330\U000E0001", "characters that the vocabulary does not have");
    return join(lost);
  }

 private:
  // The first bytes of a text that are encoded together, at most `most`: up to its last line end if possible, else to a
  // character.
  static std::size_t part_bytes(std::string_view text, std::size_t most) {
    if (text.size() <= most) return text.size();
    const std::size_t feed = text.substr(0, most).rfind('\n');
    if (feed != std::string_view::npos) return feed + 1;
    while (most > 1 && (static_cast<unsigned char>(text[most]) & 0xC0u) == 0x80u) --most;
    return most;
  }

  std::unique_ptr<SentencePieceModel> model_;
  bool trims_;  // spaces at the end of a text, and so at the end of a line
};

std::unique_ptr<TokenizerLearner> learner(const TokenizerLearning&) {
  fail(ExitCode::usage,
       "a SentencePiece model is trained by its own program, spm_train; name the file that it writes, as in --tokenizer "
       "FILE.model");
}

std::unique_ptr<Tokenizer> read(const nlohmann::json& serialised) {
  if (!serialised.contains("model") || !serialised["model"].is_string()) return nullptr;
  const std::optional<std::string> proto = from_base64(serialised["model"].get<std::string>());
  if (!proto) return nullptr;
  std::unique_ptr<SentencePieceModel> model = load_sentencepiece(*proto);
  return model == nullptr ? nullptr : std::make_unique<SentencePieceTokenizer>(std::move(model));
}

// m.model; a folder with tokenizer.model, as Hugging Face has them.
std::unique_ptr<Tokenizer> open(const std::filesystem::path& path, const TokenizerLearning& wanted) {
  const std::filesystem::path file = std::filesystem::is_directory(path) ? path / "tokenizer.model" : path;
  if (file.extension() != ".model" || !std::filesystem::exists(file)) return nullptr;
  refuse_learning_options("in " + path.string(), wanted);
  std::unique_ptr<SentencePieceModel> model = load_sentencepiece(read_file(file, "SentencePiece model"));
  if (model == nullptr) fail(ExitCode::data, "{}: not a SentencePiece model, or damaged", file.string());
  return std::make_unique<SentencePieceTokenizer>(std::move(model));
}

}  // namespace

const TokenizerKind& kind() {
  static const TokenizerKind kKind{.name = "sentencepiece",
                                   .help = "a model of SentencePiece; name its file, as in --tokenizer FILE.model",
                                   .learner = learner,
                                   .read = read,
                                   .open = open};
  return kKind;
}

}  // namespace cohort::tokenizers::sentencepiece
