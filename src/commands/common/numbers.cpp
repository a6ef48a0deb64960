#include "commands/common/numbers.hpp"

#include <fmt/format.h>

#include <cmath>

namespace cohort {
namespace {

// `allowed` in words: "an integer of at least 1". Also shown by --help.
template <class Number, class Fits>
CLI::Validator number_check(const std::string& allowed, const std::string& short_form, const Fits& fits) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        Number number{};
        if (CLI::detail::lexical_cast(text, number) && fits(number)) return "";
        return fmt::format("must be {}, but is {}", allowed, text);
      },
      short_form);
}

CLI::Validator number_within(double low, double high, bool low_open) {
  return number_check<double>(fmt::format("a number {} {} and at most {}", low_open ? "above" : "of at least", low, high),
                              fmt::format("{}{}..{}", low_open ? ">" : "", low, high), [=](double number) {
                                return std::isfinite(number) && number <= high && (low_open ? number > low : number >= low);
                              });
}

}  // namespace

CLI::Validator integer_from(Count low, Count high) {
  const bool open = high == std::numeric_limits<Count>::max();
  return number_check<Count>(
      open ? fmt::format("an integer of at least {}", low) : fmt::format("an integer from {} to {}", low, high),
      open ? fmt::format(">={}", low) : fmt::format("{}..{}", low, high),
      [=](Count number) { return number >= low && number <= high; });
}

CLI::Validator number_from(double low, double high) { return number_within(low, high, false); }

CLI::Validator number_above(double low, double high) { return number_within(low, high, true); }

}  // namespace cohort
