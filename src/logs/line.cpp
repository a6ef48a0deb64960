#include "logs/line.hpp"

#include <array>
#include <charconv>
#include <chrono>

namespace cohort {
namespace {

constexpr std::string_view kForm = "0000-00-00T00:00:00.000Z";  // 0: any digit

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

int number_at(std::string_view text, std::size_t begin, std::size_t length) {
  int value = 0;
  for (const char c : text.substr(begin, length)) value = 10 * value + (c - '0');
  return value;
}

// Cuts `expected` off the front of `text`, if it is there.
bool skip(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

}  // namespace

ParsedTime parse_time(std::string_view text) {
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    const bool fits = i < text.size() && (kForm[i] == '0' ? is_digit(text[i]) : text[i] == kForm[i]);
    if (!fits) return {.fault = i};
  }
  if (text.size() > kForm.size()) return {.fault = kForm.size()};
  struct Part {
    std::size_t begin;
    int most;
  };
  constexpr std::array<Part, 3> kClock{{{11, 23}, {14, 59}, {17, 59}}};
  std::int64_t seconds = 0;
  for (const Part& part : kClock) {
    const int value = number_at(text, part.begin, 2);
    if (value > part.most) return {.fault = part.begin};
    seconds = 60 * seconds + value;
  }
  const std::chrono::year_month_day date(std::chrono::year(number_at(text, 0, 4)),
                                         std::chrono::month(static_cast<unsigned>(number_at(text, 5, 2))),
                                         std::chrono::day(static_cast<unsigned>(number_at(text, 8, 2))));
  if (!date.month().ok()) return {.fault = 5};
  if (!date.ok()) return {.fault = 8};
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return {.milliseconds = (days * 86400 + seconds) * 1000 + number_at(text, 20, 3)};
}

std::optional<LogHeader> parse_header(std::string_view line) {
  const ParsedTime time = parse_time(line.substr(0, kForm.size()));
  if (time.fault != std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(kForm.size());
  if (!skip(rest, " ")) return std::nullopt;
  for (const LogLevel level : kLogLevels) {
    if (!skip(rest, name_of(level))) continue;
    if (!skip(rest, " rank ") || rest.empty() || !is_digit(rest.front())) return std::nullopt;
    while (!rest.empty() && is_digit(rest.front())) rest.remove_prefix(1);
    if (!skip(rest, ": ")) return std::nullopt;
    return LogHeader{.time = time.milliseconds, .level = level, .length = line.size() - rest.size()};
  }
  return std::nullopt;
}

std::string_view LogRecord::what() const {
  std::string_view all = std::string_view(text).substr(message);
  if (all.ends_with('\n')) all.remove_suffix(1);
  return all;
}

std::optional<Count> step_in(std::string_view message) {
  constexpr std::string_view kWord = "step";
  for (std::size_t at = message.find(kWord); at != std::string_view::npos; at = message.find(kWord, at + 1)) {
    if (at > 0 && is_letter(message[at - 1])) continue;
    std::string_view rest = message.substr(at + kWord.size());
    skip(rest, "s");
    if (!skip(rest, " ")) continue;
    Count step = 0;
    const auto [end, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), step);
    if (problem == std::errc() && is_digit(rest.front())) return step;
  }
  return std::nullopt;
}

}  // namespace cohort
