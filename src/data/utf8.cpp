#include "data/utf8.hpp"

#include "base/error.hpp"

namespace cohort {
namespace {

// The bytes at fault, in hexadecimal: at most a character's length.
std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes.substr(0, 4)) text += fmt::format("{}{:02X}", text.empty() ? "" : " ", static_cast<unsigned char>(c));
  return text;
}

// One character at text[position]: its code point and length in bytes, or what is wrong with it.
struct Scanned {
  std::uint32_t code_point = 0;
  std::size_t length = 0;
  const char* problem = nullptr;
};

Scanned scan(std::string_view text, std::size_t position) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t first = byte(position);
  if (first < 0x80) return {first, 1};
  Scanned result;
  result.length = first >= 0xF8 ? 0 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 0;
  if (result.length == 0) return {0, 0, "not a valid first byte of a character"};
  result.code_point = first & (0x7Fu >> result.length);
  for (std::size_t i = 1; i < result.length; ++i) {
    if (position + i >= text.size()) return {0, 0, "the text ends within a character"};
    if ((byte(position + i) & 0xC0u) != 0x80) return {0, 0, "a truncated character"};
    result.code_point = (result.code_point << 6) | (byte(position + i) & 0x3Fu);
  }
  constexpr std::uint32_t kSmallest[5] = {0, 0, 0x80, 0x800, 0x10000};
  if (result.code_point < kSmallest[result.length]) return {0, 0, "an overlong encoding"};
  const bool surrogate = result.code_point >= 0xD800 && result.code_point < 0xE000;
  if (result.code_point >= kCodePoints || surrogate) return {0, 0, "not a Unicode code point"};
  return result;
}

bool is_control(std::uint32_t code_point) { return code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0); }

}  // namespace

std::uint32_t next_code_point(std::string_view text, std::size_t& position, const TextSource& source) {
  const Scanned found = scan(text, position);
  if (found.problem != nullptr) {
    fail(ExitCode::data,
         "{}: invalid UTF-8 at byte {}: {} ({}); convert the text to UTF-8 (for example with iconv), or use the byte tokenizer",
         source.name, source.first_byte + static_cast<Bytes>(position), found.problem, hex(text.substr(position)));
  }
  position += found.length;
  return found.code_point;
}

std::optional<std::uint32_t> code_point_at(std::string_view text, std::size_t& position) {
  const Scanned found = scan(text, position);
  if (found.problem != nullptr) return std::nullopt;
  position += found.length;
  return found.code_point;
}

bool is_utf8(std::string_view text) {
  for (std::size_t position = 0; position < text.size();) {
    if (!code_point_at(text, position)) return false;
  }
  return true;
}

std::string printable(std::string_view text) {
  std::string result;
  for (std::size_t position = 0; position < text.size();) {
    const Scanned found = scan(text, position);
    const std::size_t length = found.problem != nullptr ? 1 : found.length;
    if (text[position] == '\n') {
      result += "\\n";
    } else if (found.problem != nullptr || is_control(found.code_point)) {
      for (const char c : text.substr(position, length)) result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      result += text.substr(position, length);
    }
    position += length;
  }
  return result;
}

void append_code_point(std::string& text, std::uint32_t code_point) {
  const auto add = [&](std::uint32_t byte) { text += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (code_point < 0x80) {
    add(code_point);
  } else if (code_point < 0x800) {
    add(0xC0u | (code_point >> 6));
    add(0x80u | (code_point & 0x3Fu));
  } else if (code_point < 0x10000) {
    add(0xE0u | (code_point >> 12));
    add(0x80u | ((code_point >> 6) & 0x3Fu));
    add(0x80u | (code_point & 0x3Fu));
  } else {
    add(0xF0u | (code_point >> 18));
    add(0x80u | ((code_point >> 12) & 0x3Fu));
    add(0x80u | ((code_point >> 6) & 0x3Fu));
    add(0x80u | (code_point & 0x3Fu));
  }
}

std::string describe_code_point(std::uint32_t code_point) {
  if (is_control(code_point)) return fmt::format("U+{:04X}", code_point);
  std::string character;
  append_code_point(character, code_point);
  return fmt::format("U+{:04X} '{}'", code_point, character);
}

}  // namespace cohort
