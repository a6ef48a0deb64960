#include "data/base64.hpp"

#include <algorithm>

namespace cohort {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t here = std::min<std::size_t>(3, bytes.size() - i);
    unsigned value = 0;
    for (std::size_t k = 0; k < 3; ++k) value = value << 8 | (k < here ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k) text += k <= here ? kDigits[value >> (18 - 6 * k) & 63u] : '=';
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string bytes;
  unsigned value = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t digit = i + padding < text.size() ? kDigits.find(text[i]) : 0;
    if (digit == std::string_view::npos) return std::nullopt;
    value = value << 6 | static_cast<unsigned>(digit);
    if (i % 4 != 3) continue;
    for (const unsigned shift : {16u, 8u, 0u}) bytes += static_cast<char>(value >> shift & 255u);
    value = 0;
  }
  bytes.resize(bytes.size() - padding);
  return bytes;
}

}  // namespace cohort
