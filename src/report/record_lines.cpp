#include "report/record_lines.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"

namespace cohort {
namespace {

using nlohmann::ordered_json;  // layers come in the order of the model

constexpr std::string_view kText = "_text";

void visit_number(const std::string& name, const ordered_json& value,
                  const std::function<void(const std::string&, double)>& visit) {
  if (value.is_number()) {
    visit(name, value.get<double>());
  } else if (value.is_boolean()) {
    visit(name, value.get<bool>() ? 1.0 : 0.0);
  } else if (value.is_string() && name.ends_with(kText)) {
    visit(name.substr(0, name.size() - kText.size()), number_of_text(value.get<std::string>()));
  }
}

}  // namespace

LineFaults for_each_record(const std::filesystem::path& path, const std::function<void(Count, const ordered_json&)>& visit) {
  std::ifstream lines(path, std::ios::binary);
  if (!lines) fail(ExitCode::io, "cannot read {}: {}", path.string(), std::strerror(errno));
  LineFaults faults;
  Count largest = -1;
  for (std::string line; std::getline(lines, line);) {
    const bool last = lines.eof();  // without the end of a line
    const ordered_json object = ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer() ||
        object["step"].get<Count>() < 0) {
      last ? faults.torn = true : ++faults.unreadable != 0;
      continue;
    }
    const auto step = object["step"].get<Count>();
    faults.went_back += step <= largest ? 1 : 0;
    largest = std::max(largest, step);
    visit(step, object);
  }
  return faults;
}

void note_faults(const LineFaults& faults, const std::string& file, std::vector<std::string>& notes) {
  if (faults.torn)
    notes.push_back(fmt::format("The last line of {} is cut off: the run is writing it, or was killed then.", file));
  if (faults.unreadable > 0)
    notes.push_back(fmt::format("{} of {} cannot be read and {} left out.", counted(faults.unreadable, "line"), file,
                                faults.unreadable == 1 ? "is" : "are"));
  if (faults.repeated > 0)
    notes.push_back(fmt::format("{} {} recorded twice in {}, as if two runs had written it; the later record is shown.",
                                counted(faults.repeated, "step"), faults.repeated == 1 ? "is" : "are", file));
}

double number_or_nan(const ordered_json& value) {
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

double number_of_text(const std::string& text) {
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  return std::numeric_limits<double>::quiet_NaN();
}

void for_each_number(const ordered_json& record, const std::function<void(const std::string&, double)>& visit) {
  for (const auto& [key, value] : record.items()) {
    visit_number(key, value, visit);
    if (!value.is_object()) continue;
    for (const auto& [inner, number] : value.items()) visit_number(key + "." + inner, number, visit);
  }
}

}  // namespace cohort
