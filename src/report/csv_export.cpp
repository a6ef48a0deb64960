#include "report/csv_export.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "base/error.hpp"
#include "base/file.hpp"
#include "report/record_lines.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;  // layers come in the order of the model

constexpr const char* kSteps = "metrics.jsonl";
constexpr const char* kRanks = "ranks.jsonl";
constexpr const char* kLayers = "layers.jsonl";

std::string cell_of(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return fmt::format("{}", value);  // the shortest text that reads back to the same bits
}

// Quoted where a comma, a quote or the end of a line would end the cell.
std::string cell_of(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) quoted += letter == '"' ? std::string("\"\"") : std::string(1, letter);
  return quoted + '"';
}

// What a record says of the run and not of its step.
bool is_fact(const std::string& name) { return name.starts_with("run.") || name.starts_with("slurm."); }

LineFaults write_steps(const fs::path& from, std::ostream& to) {
  std::vector<std::string> names{"step", "time"};
  std::map<std::string, std::size_t> columns{{"step", 0}, {"time", 1}};
  for_each_record(from, [&](Count, const ordered_json& record) {
    for_each_number(record, [&](const std::string& name, double) {
      if (is_fact(name) || !columns.emplace(name, names.size()).second) return;
      names.push_back(name);
    });
  });
  for (const std::string& name : names) to << (&name == &names.front() ? "" : ",") << cell_of(name);
  to << '\n';
  std::vector<std::optional<double>> row(names.size());
  return for_each_record(from, [&](Count, const ordered_json& record) {
    std::fill(row.begin(), row.end(), std::nullopt);
    // What came since the columns were counted has none.
    for_each_number(record, [&](const std::string& name, double value) {
      if (const auto column = columns.find(name); column != columns.end()) row[column->second] = value;
    });
    for (std::size_t i = 0; i < row.size(); ++i) to << (i == 0 ? "" : ",") << (row[i] ? cell_of(*row[i]) : "");
    to << '\n';
  });
}

LineFaults write_ranks(const fs::path& from, std::ostream& to) {
  constexpr std::array kColumns{"own_work", "times", "memory"};
  to << "step,rank,own_work,times,memory\n";
  return for_each_record(from, [&](Count step, const ordered_json& record) {
    std::size_t ranks = 0;
    for (const char* column : kColumns) {
      if (record.contains(column) && record[column].is_array()) ranks = std::max(ranks, record[column].size());
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      to << step << ',' << rank;
      for (const char* column : kColumns) {
        const bool there = record.contains(column) && record[column].is_array() && rank < record[column].size();
        to << ',' << (there ? cell_of(number_or_nan(record[column][rank])) : "");
      }
      to << '\n';
    }
  });
}

LineFaults write_layers(const fs::path& from, std::ostream& to) {
  to << "step,layer,values,norm,elements,zeros,not_finite\n";
  return for_each_record(from, [&](Count step, const ordered_json& record) {
    if (!record.contains("layers") || !record["layers"].is_object()) return;
    for (const auto& [layer, kinds] : record["layers"].items()) {
      if (!kinds.is_object()) continue;
      for (const auto& [kind, values] : kinds.items()) {
        if (!values.is_object()) continue;
        double norm = number_or_nan(values.value("norm", ordered_json()));
        if (values.contains("norm_text") && values["norm_text"].is_string())
          norm = number_of_text(values["norm_text"].get<std::string>());
        to << step << ',' << cell_of(layer) << ',' << cell_of(kind) << ',' << cell_of(norm);
        for (const char* count : {"elements", "zeros", "not_finite"}) to << ',' << values.value(count, ordered_json(0)).dump();
        to << '\n';
      }
    }
  });
}

}  // namespace

std::vector<CsvFile> csv_files(const fs::path& run_folder) {
  std::error_code error;
  if (!fs::exists(run_folder / kSteps, error)) {
    fail(ExitCode::io, "{}: not a run folder: it has no {}, which a run writes from its first step on", run_folder.string(),
         kSteps);
  }
  std::vector<CsvFile> files{{"steps.csv", kSteps}};
  if (fs::exists(run_folder / kRanks, error)) files.push_back({"ranks.csv", kRanks});
  if (fs::exists(run_folder / kLayers, error)) files.push_back({"layers.csv", kLayers});
  return files;
}

void write_csv(const fs::path& run_folder, const CsvFile& file, const fs::path& to, std::vector<std::string>& notes) {
  const fs::path temporary = to.string() + ".tmp";
  std::ofstream out(temporary, std::ios::binary);
  if (!out) fail(ExitCode::io, "cannot write {}: {}", temporary.string(), std::strerror(errno));
  const auto write = file.source == kSteps ? write_steps : file.source == kRanks ? write_ranks : write_layers;
  const LineFaults faults = write(run_folder / file.source, out);
  note_faults(faults, file.source, notes);
  if (faults.went_back > 0)
    notes.push_back(fmt::format(
        "In {} {} of a step that does not follow the one before, as if two runs had written it: {} has all "
        "of it, in the order of the file.",
        file.source, faults.went_back == 1 ? "1 record is" : fmt::format("{} records are", faults.went_back), file.name));
  out.close();
  if (!out) fail(ExitCode::io, "cannot write {} (is the disk full?)", temporary.string());
  commit_file(temporary, to);
}

}  // namespace cohort
