#include "data/bpe/byte_letters.hpp"

#include <array>
#include <cstdint>

#include "data/utf8.hpp"

namespace cohort {
namespace {

constexpr std::uint32_t kFirstLetter = 0x100;

bool prints(unsigned byte) { return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD); }

struct Letters {
  std::array<std::string, 256> of_byte;
  std::array<int, 0x200> byte_of{};  // by code point; -1: none

  Letters() {
    byte_of.fill(-1);
    std::uint32_t next = kFirstLetter;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const std::uint32_t code_point = prints(byte) ? byte : next++;
      append_code_point(of_byte[byte], code_point);
      byte_of[code_point] = static_cast<int>(byte);
    }
  }
};

const Letters& letters() {
  static const Letters kLetters;
  return kLetters;
}

}  // namespace

std::string to_byte_letters(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += letters().of_byte[static_cast<unsigned char>(c)];
  return text;
}

std::optional<std::string> from_byte_letters(std::string_view text) {
  std::string bytes;
  for (std::size_t position = 0; position < text.size();) {
    const std::optional<std::uint32_t> code_point = code_point_at(text, position);
    if (!code_point || *code_point >= letters().byte_of.size() || letters().byte_of[*code_point] < 0) return std::nullopt;
    bytes += static_cast<char>(letters().byte_of[*code_point]);
  }
  return bytes;
}

std::array<unsigned char, 256> bytes_by_letter() {
  std::array<unsigned char, 256> bytes{};
  std::size_t count = 0;
  for (const int byte : letters().byte_of) {
    if (byte >= 0) bytes[count++] = static_cast<unsigned char>(byte);
  }
  return bytes;
}

}  // namespace cohort
