#include "base/text.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "base/error.hpp"

namespace cohort {
namespace {

// Levenshtein distance.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = name.size() / 2 + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string human_bytes(Bytes bytes) {
  static constexpr std::array<const char*, 5> kSuffix{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (std::fabs(value) >= 1024.0 && unit + 1 < kSuffix.size()) {
    value /= 1024.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kSuffix[unit]);
}

Bytes parse_bytes(std::string_view text) {
  // strtod, since std::from_chars for double is missing in the libc++ of macOS; digits and a point alone, of all that it
  // understands.
  const std::size_t length = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string digits(text.substr(0, length));
  char* end = nullptr;
  const double number = std::strtod(digits.c_str(), &end);
  std::string_view unit = length > 0 && end == digits.c_str() + length ? text.substr(length) : "?";
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  static constexpr std::array<std::pair<std::string_view, Bytes>, 5> kUnits{
      {{"", 1}, {"B", 1}, {"KiB", kKiB}, {"MiB", kMiB}, {"GiB", kGiB}}};
  for (const auto& [name, unit_bytes] : kUnits) {
    const double bytes = number * static_cast<double>(unit_bytes);
    if (unit == name && bytes >= 0.0 && bytes < 0x1.0p62 && bytes == std::floor(bytes)) return static_cast<Bytes>(bytes);
  }
  fail(ExitCode::usage, "'{}' is not a size: give a whole number of bytes, such as 4, 64KiB, 1MiB or 1.5GiB", text);
}

std::string human_count(double count) {
  static constexpr std::array<const char*, 5> kSuffix{"", "K", "M", "B", "T"};
  std::size_t unit = 0;
  while (std::fabs(count) >= 1000.0 && unit + 1 < kSuffix.size()) {
    count /= 1000.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f}", count) : fmt::format("{:.2f}{}", count, kSuffix[unit]);
}

std::string human_seconds(double seconds) {
  const auto total = static_cast<long long>(std::llround(std::max(0.0, seconds)));
  if (total < 60) return fmt::format("{} s", total);
  if (total < 3600) return fmt::format("{} min {:02} s", total / 60, total % 60);
  return fmt::format("{} h {:02} min", total / 3600, total % 3600 / 60);
}

std::string first_few(const std::vector<std::string>& parts, std::size_t shown) {
  if (parts.size() <= shown) return join(parts);
  return fmt::format("{} and {} more", join({parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(shown)}),
                     parts.size() - shown);
}

std::string counted(std::int64_t count, std::string_view singular, std::string_view plural) {
  if (count == 1) return fmt::format("1 {}", singular);
  return plural.empty() ? fmt::format("{} {}s", count, singular) : fmt::format("{} {}", count, plural);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines{""};
  for (const std::string& word : split(text, ' ')) {
    std::string& line = lines.back();
    if (line.empty()) {
      line = word;
    } else if (line.size() + 1 + word.size() <= width) {
      line += ' ' + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string Table::str(std::size_t right_from) const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t column = 0; column < row.size(); ++column) widths[column] = std::max(widths[column], row[column].size());
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t column = 0; column < row.size(); ++column) {
      line += column >= right_from ? fmt::format("{:>{}}", row[column], widths[column])
                                   : fmt::format("{:<{}}", row[column], widths[column]);
      if (column + 1 < row.size()) line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace cohort
