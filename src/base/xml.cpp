#include "base/xml.hpp"

namespace cohort {

std::string xml_escaped(std::string_view text) {
  std::string safe;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      default:
        safe += static_cast<unsigned char>(letter) < ' ' ? '?' : letter;
    }
  }
  return safe;
}

}  // namespace cohort
