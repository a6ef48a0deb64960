// A model of SentencePiece (Kudo and Richardson 2018), by its library. Two sources implement this: sentencepiece_model.cpp, and
// no_sentencepiece_model.cpp where Cohort is built without the library.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"

namespace cohort {

class SentencePieceModel {
 public:
  virtual ~SentencePieceModel() = default;

  /// As files have it: a serialised ModelProto.
  virtual const std::string& proto() const = 0;
  virtual Count pieces() const = 0;
  /// As the model writes it: "▁the", "<0x0A>", "</s>".
  virtual const std::string& piece(std::int32_t id) const = 0;
  virtual bool is_control(std::int32_t id) const = 0;
  virtual bool is_byte(std::int32_t id) const = 0;
  virtual bool is_unknown(std::int32_t id) const = 0;

  /// The ids of a text in UTF-8. `starts`: the text is the start of a document, before which most models put a space.
  virtual std::vector<std::int32_t> encode(std::string_view text, bool starts) const = 0;
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
};

/// Null if it is not a model. Throws Error(usage), with the package to install, where Cohort is built without the library.
std::unique_ptr<SentencePieceModel> load_sentencepiece(std::string proto);

}  // namespace cohort
