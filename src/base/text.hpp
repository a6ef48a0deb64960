// Small text helpers for messages: nearest name, human-readable sizes, aligned tables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.hpp"

namespace cohort {

/// The candidate with the smallest edit distance to `name`, or "" if none is closer than half of its length.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

/// 1536 -> "1.5 KiB".
std::string human_bytes(Bytes bytes);
/// "4", "64KiB", "1 MiB", "1.5GiB" -> bytes. Throws Error(usage) on anything else, fractions of a
/// byte included.
Bytes parse_bytes(std::string_view text);
/// 124439808 -> "124.44M".
std::string human_count(double count);
/// Seconds as "12 s", "3 min 05 s", "2 h 07 min".
std::string human_seconds(double seconds);
/// "1 rank", "2 ranks", "0 ranks": a number and what it counts; `plural` for words that do not just add an s.
std::string counted(std::int64_t count, std::string_view singular, std::string_view plural = "");
/// "a, b, c".
std::string join(const std::vector<std::string>& parts, std::string_view separator = ", ");
/// "a, b, c, d, e and 7 more": the first of a list that may be long.
std::string first_few(const std::vector<std::string>& parts, std::size_t shown = 5);

/// Lines of at most `width` characters, broken at spaces; a longer word has a line of its own. One line, "", of an empty text.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

/// The parts of "a,b,c" between the separators; none of an empty text. A separator at the end ends the last part.
std::vector<std::string> split(std::string_view text, char separator);

/// A plain-text table with aligned columns; numbers (and anything after `right_from`) are right-aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// Columns from index `right_from` on are right-aligned. Ends with a newline.
  std::string str(std::size_t right_from = 1) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace cohort
