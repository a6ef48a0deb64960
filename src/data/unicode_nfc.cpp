#include "data/unicode_nfc.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/error.hpp"
#include "data/utf8.hpp"

namespace cohort {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char letter) { return (static_cast<unsigned char>(letter) & 0x80u) == 0; });
}

// Of valid UTF-8.
void append_nfc(std::string_view text, std::string& normal) {
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(mapped, std::free);
  if (size < 0) fail(ExitCode::internal, "normalizing a text: {}", utf8proc_errmsg(size));
  normal.append(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(size));
}

}  // namespace

void require_nfc(std::string_view /*source*/) {}

std::string to_nfc(std::string_view text) {
  if (is_ascii(text)) return std::string(text);
  std::string normal;
  std::size_t plain = 0;  // where the characters begin that are not normalized yet
  for (std::size_t at = 0; at < text.size();) {
    if (code_point_at(text, at)) continue;
    append_nfc(text.substr(plain, at - plain), normal);
    normal += text[at];
    plain = ++at;
  }
  append_nfc(text.substr(plain), normal);
  return normal;
}

}  // namespace cohort
