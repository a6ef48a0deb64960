#include "commands/generate/prompts.hpp"

#include "base/error.hpp"
#include "base/strict_json.hpp"

namespace cohort {
namespace {

std::string prompt_of_json(std::string_view line, const std::string& where, const std::string& field) {
  constexpr int kDepth = 64;
  const nlohmann::json object = parse_strict_json(line, where, kDepth, ExitCode::data);
  if (!object.is_object()) fail(ExitCode::data, "{}: not a JSON object", where);
  const auto found = object.find(field);
  if (found == object.end()) fail(ExitCode::data, "{}: no field \"{}\" (--prompt-field names another)", where, field);
  if (!found->is_string()) fail(ExitCode::data, "{}: the field \"{}\" is {}, not a text", where, field, found->type_name());
  return found->get<std::string>();
}

}  // namespace

std::vector<std::string> parse_prompts(std::string_view content, const std::string& file, const std::string& field) {
  const bool json = file.ends_with(".jsonl");
  std::vector<std::string> prompts;
  for (std::size_t begin = 0, number = 1; begin < content.size(); ++number) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    std::string_view line = content.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string where = fmt::format("{}, line {}", file, number);
    prompts.push_back(json ? prompt_of_json(line, where, field) : std::string(line));
    if (prompts.back().empty()) fail(ExitCode::data, "{}: an empty prompt; give at least one character to continue", where);
    begin = end + 1;
  }
  if (prompts.empty()) fail(ExitCode::data, "{}: no prompts", file);
  return prompts;
}

}  // namespace cohort
