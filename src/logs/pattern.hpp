// A regular expression of --grep: extended POSIX, as `grep -E` takes it.
#pragma once

#include <regex.h>

#include <string>
#include <string_view>

namespace cohort {

class Pattern {
 public:
  /// Throws Error(usage) with `option`, what is wrong, the position and examples.
  Pattern(const std::string& text, std::string_view option);
  ~Pattern();
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  /// Whether it is somewhere in the text; ^ and $ are the ends of each of its lines.
  bool matches(std::string_view text) const;

 private:
  regex_t compiled_;
};

}  // namespace cohort
