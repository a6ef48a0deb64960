#include "logs/time_or_step.hpp"

#include <fmt/core.h>

#include <charconv>
#include <chrono>
#include <limits>
#include <string>

#include "base/error.hpp"
#include "logs/line.hpp"

namespace cohort {
namespace {

constexpr std::string_view kStep = "step:";

[[noreturn]] void refuse(std::string_view text, std::string_view option, std::size_t at, std::string_view problem) {
  fail(ExitCode::usage,
       "{} '{}': {} at character {}; write step:100, a time in UTC such as 2025-03-01T12:00 or 2025-03-01T12:00:00.250Z, or how "
       "long ago: 90s, 10m, 2h, 1d",
       option, text, problem, at + 1);
}

// The number at the front of `text`, and how many characters it has: none if there is no number, or it is too large.
std::pair<Count, std::size_t> leading_number(std::string_view text) {
  Count number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || number < 0) return {0, 0};
  return {number, static_cast<std::size_t>(end - text.data())};
}

std::int64_t milliseconds_of(char unit) {
  switch (unit) {
    case 's':
      return 1000;
    case 'm':
      return 60 * 1000;
    case 'h':
      return 3600 * 1000;
    case 'd':
      return 86400 * 1000;
    default:
      return 0;
  }
}

std::int64_t parse_date(std::string_view text, std::string_view option) {
  // What is not said is that of the start of the day, minute or second.
  constexpr std::string_view kStart = "0000-01-01T00:00:00.000Z";
  std::string full(text.ends_with('Z') ? text.substr(0, text.size() - 1) : text);
  if (full.size() > 10 && full[10] == ' ') full[10] = 'T';
  const std::size_t said = full.size();
  if (said < kStart.size()) full += kStart.substr(said);
  const ParsedTime time = parse_time(full);
  if (time.fault != std::string_view::npos) refuse(text, option, time.fault, "not a date or time");
  const bool whole_parts = said == 10 || said == 16 || said == 19 || said == 23;
  if (!whole_parts) refuse(text, option, said, "the date or time ends too early");
  return time.milliseconds;
}

}  // namespace

std::int64_t now_milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

TimeOrStep parse_time_or_step(std::string_view text, std::string_view option, std::int64_t now) {
  if (text.starts_with(kStep)) {
    const auto [step, length] = leading_number(text.substr(kStep.size()));
    if (length == 0) refuse(text, option, kStep.size(), "the step is missing");
    if (kStep.size() + length < text.size()) refuse(text, option, kStep.size() + length, "unexpected text after the step");
    return {.step = step};
  }
  const auto [number, length] = leading_number(text);
  if (length == 0) refuse(text, option, 0, "not a time, step or age");
  if (length < text.size() && text[length] == '-') return {.time = parse_date(text, option)};
  const std::int64_t unit = length < text.size() ? milliseconds_of(text[length]) : 0;
  if (unit == 0) refuse(text, option, length, "a unit (s, m, h or d) is missing");
  if (length + 1 < text.size()) refuse(text, option, length + 1, "unexpected text after the unit");
  if (number > std::numeric_limits<std::int64_t>::max() / 2 / unit) refuse(text, option, 0, "too long ago");
  return {.time = now - number * unit};
}

}  // namespace cohort
