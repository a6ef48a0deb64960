// Bytes as letters: how vocab.json, merges.txt and tokenizer.json write byte-level tokens as text (Radford et al. 2019, their
// encoder). A byte that prints as a letter of Latin-1 is that letter; the others are the letters from U+0100 on, in their order:
// the space is "Ġ" (U+0120), the line feed "Ċ" (U+010A).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace cohort {

std::string to_byte_letters(std::string_view bytes);
/// Nothing if the text holds a character that stands for no byte.
std::optional<std::string> from_byte_letters(std::string_view text);
/// All bytes in the order of their letters: '!' first, as the ids of GPT-2's vocabulary have them.
std::array<unsigned char, 256> bytes_by_letter();

}  // namespace cohort
