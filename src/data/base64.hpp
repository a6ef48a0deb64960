// Bytes as text, by RFC 4648.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cohort {

std::string to_base64(std::string_view bytes);
/// Nothing if the text is empty or not base64.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace cohort
