#include "data/sentencepiece/sentencepiece_model.hpp"

#include <sentencepiece_processor.h>

#include "base/error.hpp"

namespace cohort {
namespace {

// A protobuf message may be continued by another, whose fields count: normalizer_spec (3) { add_dummy_prefix (3): false }.
constexpr std::string_view kWithoutPrefix("\x1a\x02\x18\x00", 4);

class LibraryModel : public SentencePieceModel {
 public:
  explicit LibraryModel(std::string proto) : proto_(std::move(proto)) {}

  bool load() {
    return whole_.LoadFromSerializedProto(proto_).ok() &&
           continued_.LoadFromSerializedProto(proto_ + std::string(kWithoutPrefix)).ok() && whole_.GetPieceSize() > 0;
  }

  const std::string& proto() const override { return proto_; }
  Count pieces() const override { return whole_.GetPieceSize(); }
  const std::string& piece(std::int32_t id) const override { return whole_.IdToPiece(id); }
  bool is_control(std::int32_t id) const override { return whole_.IsControl(id); }
  bool is_byte(std::int32_t id) const override { return whole_.IsByte(id); }
  bool is_unknown(std::int32_t id) const override { return whole_.IsUnknown(id); }

  std::vector<std::int32_t> encode(std::string_view text, bool starts) const override {
    std::vector<int> ids;
    const auto status = (starts ? whole_ : continued_).Encode(text, &ids);
    if (!status.ok()) fail(ExitCode::data, "SentencePiece cannot encode a text: {}", status.ToString());
    return ids;
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    const auto status = whole_.Decode(std::vector<int>(ids.begin(), ids.end()), &text);
    if (!status.ok()) fail(ExitCode::data, "SentencePiece cannot decode tokens: {}", status.ToString());
    return text;
  }

 private:
  std::string proto_;
  sentencepiece::SentencePieceProcessor whole_, continued_;
};

}  // namespace

std::unique_ptr<SentencePieceModel> load_sentencepiece(std::string proto) {
  auto model = std::make_unique<LibraryModel>(std::move(proto));
  return model->load() ? std::move(model) : nullptr;
}

}  // namespace cohort
