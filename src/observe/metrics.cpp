#include "observe/metrics.hpp"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.hpp"
#include "base/file.hpp"

namespace cohort {
namespace {

using nlohmann::ordered_json;

const char* non_finite_text(double value) { return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"; }

ordered_json with_finite_numbers(const ordered_json& object) {
  ordered_json result = ordered_json::object();
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) {
      result[name] = with_finite_numbers(value);
    } else if (value.is_number_float() && !std::isfinite(value.get<double>())) {
      result[name] = nullptr;
      result[name + "_text"] = non_finite_text(value.get<double>());
    } else {
      result[name] = value;
    }
  }
  return result;
}

// The line's step; nothing if it is not a record.
std::optional<Count> step_of(const std::string& line) {
  const ordered_json record = ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!record.is_object() || !record.contains("step") || !record["step"].is_number_integer()) return std::nullopt;
  return record["step"].get<Count>();
}

}  // namespace

MetricsWriter::MetricsWriter(const std::filesystem::path& path, std::optional<Count> resumed_step) : path_(path) {
  if (resumed_step && std::filesystem::exists(path)) keep_steps_up_to(*resumed_step);
  file_.open(path, resumed_step ? std::ios::app : std::ios::trunc);
  if (!file_) fail(ExitCode::io, "cannot write the metrics '{}': {}", path.string(), std::strerror(errno));
}

void MetricsWriter::keep_steps_up_to(Count resumed_step) {
  std::istringstream lines(read_file(path_, "metrics file"));
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const std::optional<Count> step = step_of(line);
    if (!step) {
      ++unreadable_lines_;
    } else if (*step <= resumed_step) {
      kept += line + '\n';
      last_step_ = *step;
    }
  }
  write_file_atomically(path_, kept);
}

void MetricsWriter::write(const ordered_json& record) {
  COHORT_CHECK(record.is_object() && record.contains("step") && record["step"].is_number_integer(),
               "a metrics record needs an integer \"step\"");
  const auto step = record["step"].get<Count>();
  COHORT_CHECK(step > last_step_, "the metrics of step {} come after those of step {}; a step has one record", step, last_step_);
  last_step_ = step;
  file_ << with_finite_numbers(record).dump(-1, ' ', false, ordered_json::error_handler_t::replace) << '\n' << std::flush;
  if (!file_) fail(ExitCode::io, "cannot write the metrics '{}' (is the disk full?)", path_.string());
}

}  // namespace cohort
