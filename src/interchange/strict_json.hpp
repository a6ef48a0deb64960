// JSON in files of strangers: read without surprises, before anybody looks what is in it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace cohort {

/// Throws Error(checkpoint), which begins with `where` ("FILE: the header"), if the text is not JSON, has two values of one name
/// in an object (the parser would keep the last), or is nested more than `depth` deep. Nesting takes memory here and the stack in
/// whoever prints or compares a value: some hundred kilobytes of brackets are enough to crash it.
nlohmann::json parse_strict_json(std::string_view text, const std::string& where, int depth);

}  // namespace cohort
