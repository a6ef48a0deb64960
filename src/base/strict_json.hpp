// JSON in files of strangers: read without surprises, before anybody looks what is in it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/units.hpp"

namespace cohort {

/// Texts with more values, counting objects, lists and what is in them, are refused: each takes up to eighty bytes of memory, and
/// two bytes of text are enough to make one.
inline constexpr Count kMostJsonValues = 4'000'000;

/// Time and memory grow with the length of the text. Throws Error(code), which begins with `where` ("FILE: the header"), if
/// the text is not JSON, has two values of one name in an object (the parser would keep the last), has more than kMostJsonValues,
/// or is nested more than `depth` deep. Nesting takes memory here and the stack in whoever prints or compares a value: some
/// hundred kilobytes of brackets are enough to crash it.
nlohmann::json parse_strict_json(std::string_view text, const std::string& where, int depth,
                                 ExitCode code = ExitCode::checkpoint);

}  // namespace cohort
