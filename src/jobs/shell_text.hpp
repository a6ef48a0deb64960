// Text that ends up in a bash script: words from the command line, which are quoted, and values of site profiles, which may name
// variables and nothing else that bash acts on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cohort {

/// `text` as one word of bash that means exactly these characters: as it is if it is plain, else in single quotes.
std::string shell_word(std::string_view text);
/// The words with blanks between them.
std::string shell_words(const std::vector<std::string>& words);

/// Whether bash reads `text` as the same characters bare and between double quotes, apart from blanks, which divide words, and
/// from $NAME, which it replaces. The first character that stands against it; 0 if none does.
char shell_mark_in(std::string_view text);

}  // namespace cohort
