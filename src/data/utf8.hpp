// UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF, no half characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "data/text_source.hpp"

namespace cohort {

inline constexpr std::uint32_t kCodePoints = 0x110000;

/// The code point that starts at text[position], which must be in the text; position is moved behind it. Throws Error(data) with
/// `source`, the byte offset and the bytes found.
std::uint32_t next_code_point(std::string_view text, std::size_t& position, const TextSource& source);

/// The same, or nothing, with position left as it is, where text[position] begins no character.
std::optional<std::uint32_t> code_point_at(std::string_view text, std::size_t& position);

bool is_utf8(std::string_view text);

/// One line that a terminal can show: line breaks as \n, other control characters and bytes that are no UTF-8 as \xNN.
std::string printable(std::string_view text);

/// Appends a code point that is valid (see above) to `text`.
void append_code_point(std::string& text, std::uint32_t code_point);

/// "U+00E9 'é'"; control characters without the quotes.
std::string describe_code_point(std::uint32_t code_point);

}  // namespace cohort
