#include "jobs/template.hpp"

#include <algorithm>
#include <functional>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFact = "#@ ";
constexpr std::string_view kInclude = "@include ";
constexpr std::string_view kRequest = "#SBATCH";

bool is_name_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

// Calls `found` with begin, end and name of each placeholder of a line.
void for_each_placeholder(const std::string& text,
                          const std::function<void(std::size_t, std::size_t, const std::string&)>& found) {
  std::size_t at = text.find('@');
  while (at != std::string::npos) {
    std::size_t end = at + 1;
    while (end < text.size() && is_name_letter(text[end])) ++end;
    const bool is_placeholder =
        end > at + 1 && end < text.size() && text[end] == '@' && text[at + 1] >= 'A' && text[at + 1] <= 'Z';
    if (is_placeholder) found(at, end + 1, text.substr(at + 1, end - at - 1));
    at = text.find('@', is_placeholder ? end + 1 : at + 1);
  }
}

// Of several values, the one that `value` names; else an error that lists them.
template <class T>
T chosen(const std::string& place, const std::string& key, const std::string& value, const std::map<std::string, T>& choices) {
  if (const auto found = choices.find(value); found != choices.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& choice : choices) names.push_back(choice.first);
  fail(ExitCode::config, "{}: `{}: {}` is not one of {}", place, key, value, join(names));
}

void read_fact(TemplateFacts& facts, const std::string& text, const std::string& place) {
  using Kind = TemplateFacts::Tasks;
  using Nodes = std::pair<Count, Count>;
  const std::size_t colon = text.find(": ");
  const std::string key = text.substr(0, colon);
  const std::string value = colon == std::string::npos ? "" : text.substr(colon + 2);
  if (key == "description") {
    facts.description = value;
  } else if (key == "nodes") {
    const Nodes nodes = chosen<Nodes>(place, key, value, {{"1", {1, 1}}, {"1+", {1, 0}}, {"2+", {2, 0}}});
    facts.least_nodes = nodes.first;
    facts.most_nodes = nodes.second;
  } else if (key == "tasks") {
    facts.tasks = chosen<Kind>(place, key, value, {{"layout", Kind::layout}, {"any", Kind::any}, {"1", Kind::one}});
  } else if (key == "device") {
    facts.needs_gpus = chosen<bool>(place, key, value, {{"cuda", true}});
  } else {
    fail(ExitCode::config,
         "{}: `{}` is not a property of templates: write description, nodes, tasks or device, as in `#@ nodes: 1`", place, key);
  }
}

void read_lines(JobTemplate& job, const fs::path& file, bool is_part) {
  int number = 0;
  for (std::string& line : split(read_file(file, "job template"), '\n')) {
    const std::string place = fmt::format("{}:{}", file.string(), ++number);
    if (line.starts_with(kFact)) {
      if (is_part) fail(ExitCode::config, "{}: a part cannot set properties of the template that includes it", place);
      read_fact(job.facts, line.substr(kFact.size()), place);
    } else if (line.starts_with(kInclude)) {
      if (is_part) fail(ExitCode::config, "{}: a part cannot include another", place);
      const fs::path part = file.parent_path() / "parts" / line.substr(kInclude.size());
      std::error_code error;
      if (!fs::is_regular_file(part, error)) fail(ExitCode::config, "{}: no part {}", place, part.string());
      read_lines(job, part, true);
    } else {
      job.lines.push_back({place, std::move(line)});
    }
  }
}

const std::string& value_of(const std::string& name, const std::string& place, const std::map<std::string, std::string>& values) {
  if (const auto found = values.find(name); found != values.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& value : values) names.push_back(value.first);
  const std::string nearest = nearest_name(name, names);
  fail(ExitCode::config, "{}: unknown placeholder @{}@{}", place, name,
       nearest.empty() ? "" : fmt::format(": did you mean @{}@?", nearest));
}

// sbatch divides such a line at blanks, ends it at '#', and knows no variables.
void check_request(const std::string& name, const std::string& value, const std::string& place) {
  const std::size_t at = value.find_first_of(" \t\"'#$\\");
  if (at == std::string::npos) return;
  fail(ExitCode::config, "{}: {} = \"{}\" contains '{}', which sbatch does not accept in an #SBATCH line", place, name, value,
       value[at]);
}

// The line with values in place of placeholders; whether one of them was empty.
bool fill(std::string& out, const TemplateLine& line, const std::map<std::string, std::string>& values) {
  bool has_empty = false;
  std::size_t done = 0;
  for_each_placeholder(line.text, [&](std::size_t begin, std::size_t end, const std::string& name) {
    const std::string& value = value_of(name, line.place, values);
    const bool alone = begin == 0 && end == line.text.size();
    if (!alone && value.find('\n') != std::string::npos)
      fail(ExitCode::config, "{}: @{}@ has several lines and must be alone on its line", line.place, name);
    if (line.text.starts_with(kRequest)) check_request(name, value, line.place);
    has_empty = has_empty || value.empty();
    out += line.text.substr(done, begin - done) + value;
    done = end;
  });
  out += line.text.substr(done);
  return has_empty;
}

bool is_comment(const std::string& line) {
  return line.starts_with('#') && !line.starts_with(kRequest) && !line.starts_with("#!");
}

}  // namespace

JobTemplate read_template(const fs::path& file) {
  JobTemplate job;
  job.name = file.stem().string();
  read_lines(job, file, false);
  if (job.facts.description.empty()) fail(ExitCode::config, "{}:1: a template needs a line `#@ description: ...`", file.string());
  return job;
}

std::vector<Placeholder> placeholders_of(const JobTemplate& source) {
  std::vector<Placeholder> found;
  for (const TemplateLine& line : source.lines) {
    for_each_placeholder(line.text, [&](std::size_t, std::size_t, const std::string& name) {
      found.push_back({name, line.place});
    });
  }
  return found;
}

bool uses(const JobTemplate& source, const std::string& name) {
  const std::vector<Placeholder> all = placeholders_of(source);
  return std::any_of(all.begin(), all.end(), [&](const Placeholder& one) { return one.name == name; });
}

std::string render(const JobTemplate& source, const std::map<std::string, std::string>& values) {
  std::vector<std::string> lines;
  for (const TemplateLine& line : source.lines) {
    std::string text;
    if (fill(text, line, values)) {
      while (!lines.empty() && is_comment(lines.back())) lines.pop_back();
    } else if (!text.empty() || lines.empty() || !lines.back().empty()) {  // no second blank line where something was left out
      lines.push_back(std::move(text));
    }
  }
  return join(lines, "\n") + "\n";
}

}  // namespace cohort
