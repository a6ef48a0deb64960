#include "logs/pattern.hpp"

#include <array>

#include "base/error.hpp"

namespace cohort {
namespace {

// REG_NEWLINE: lines count, not the text as a whole. (std::regex recurses for each character and overflows the stack on long
// lines.)
constexpr int kFlags = REG_EXTENDED | REG_NEWLINE;

// The library says what is wrong, not where. What comes after the longest beginning that is an expression by itself is the
// mistake: in "step (1|2" the parenthesis.
std::size_t first_fault(const std::string& text) {
  for (std::size_t length = text.size(); length-- > 0;) {
    regex_t compiled;
    if (regcomp(&compiled, text.substr(0, length).c_str(), kFlags) != 0) continue;
    regfree(&compiled);
    return length;
  }
  return 0;
}

}  // namespace

Pattern::Pattern(const std::string& text, std::string_view option) {
  const int problem = regcomp(&compiled_, text.c_str(), kFlags);
  if (problem == 0) return;
  std::array<char, 256> reason{};
  regerror(problem, &compiled_, reason.data(), reason.size());
  fail(ExitCode::usage,
       "{} '{}': {}, at character {}; give a regular expression as for grep -E, such as 'norm [1-9][0-9]' or 'saved|stopping', "
       "with a backslash before each literal ( [ {{ * + ? . |",
       option, text, reason.data(), first_fault(text) + 1);
}

Pattern::~Pattern() { regfree(&compiled_); }

bool Pattern::matches(std::string_view text) const {
  regmatch_t range;  // in: where to look; it need not end with a zero
  range.rm_so = 0;
  range.rm_eo = static_cast<regoff_t>(text.size());
  // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): REG_STARTEND takes the end from range
  return regexec(&compiled_, text.data(), 1, &range, REG_STARTEND) == 0;
}

}  // namespace cohort
