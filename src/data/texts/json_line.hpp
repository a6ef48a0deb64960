// A document as one line of JSON (https://jsonlines.org).
#pragma once

#include <string>
#include <string_view>

namespace cohort {

/// The text in a field of the object that the line is. Throws Error(data), to be completed with file and line: not JSON, not an
/// object, without the field, the field is no text.
std::string text_in_json_line(std::string_view line, const std::string& field);

}  // namespace cohort
