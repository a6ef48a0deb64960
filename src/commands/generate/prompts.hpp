// The prompts of `cohort generate --prompts FILE`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cohort {

/// Of a file whose name ends with .jsonl the text `field` of the object on each line; of any other the lines themselves, without
/// their ends (\n or \r\n). Throws Error(data) with file and line: no JSON, no such field or no text in it, an empty prompt; and
/// for a file without prompts.
std::vector<std::string> parse_prompts(std::string_view content, const std::string& file, const std::string& field);

}  // namespace cohort
