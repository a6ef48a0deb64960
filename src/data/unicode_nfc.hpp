// Unicode's normalization form C (UAX #15): characters that have several spellings, as e and an accent beside it, in one of them.
// Two sources implement this: unicode_nfc.cpp by the library utf8proc, and no_unicode_nfc.cpp where Cohort is built without it.
#pragma once

#include <string>
#include <string_view>

namespace cohort {

/// Throws Error(usage), with the package to install, where Cohort is built without the library.
void require_nfc(std::string_view source);

/// The text in form C; bytes that are not UTF-8 stay as they are.
std::string to_nfc(std::string_view text);

/// Text grows by this factor at most in UTF-8 (UAX #15, section 12).
inline constexpr std::size_t kMostNfcGrowth = 3;

}  // namespace cohort
