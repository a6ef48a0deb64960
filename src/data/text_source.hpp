// Where a text comes from, for messages about it.
#pragma once

#include <string>
#include <string_view>

#include "base/units.hpp"

namespace cohort {

struct TextSource {
  TextSource(const char* name_) : name(name_) {}
  TextSource(const std::string& name_) : name(name_) {}
  TextSource(std::string_view name_, Bytes first_byte_ = 0) : name(name_), first_byte(first_byte_) {}

  std::string_view name;
  Bytes first_byte = 0;  // of the text in the source: byte i of the text is byte first_byte + i of the source
  bool starts = true;    // false: the text continues a document, which was cut before it
};

}  // namespace cohort
