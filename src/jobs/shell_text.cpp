#include "jobs/shell_text.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace cohort {
namespace {

constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

// '~' and '=' are left out on purpose: bash expands ~ where a word begins, and takes NAME=x for an assignment where a command
// does.
constexpr std::string_view kPlainMarks = "_./:,+%@-";

bool is_plain(char c) { return kLetters.find(c) != std::string_view::npos || kPlainMarks.find(c) != std::string_view::npos; }

}  // namespace

std::string shell_word(std::string_view text) {
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";  // ends the quotes, a quote by itself, begins them anew
    } else {
      word += c;
    }
  }
  return word + "'";
}

std::string shell_words(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  quoted.reserve(words.size());
  for (const std::string& word : words) quoted.push_back(shell_word(word));
  return join(quoted, " ");
}

char shell_mark_in(std::string_view text) {
  constexpr std::string_view kActs = "\"'\\`;&|<>()!\n\r\t";
  const std::size_t at = text.find_first_of(kActs);
  return at == std::string_view::npos ? '\0' : text[at];
}

}  // namespace cohort
