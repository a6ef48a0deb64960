#include "base/error.hpp"
#include "data/unicode_nfc.hpp"

namespace cohort {

void require_nfc(std::string_view source) {
  fail(ExitCode::usage,
       "{}: its texts are normalized (NFC), but this cohort was built without utf8proc: install it (on Debian: apt install "
       "libutf8proc-dev) and build Cohort again",
       source);
}

std::string to_nfc(std::string_view /*text*/) { fail(ExitCode::internal, "a text to normalize, without utf8proc"); }

}  // namespace cohort
