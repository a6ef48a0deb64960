#include "report/run_record.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "checkpoint/store/store.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The records of a file of lines, by rising step: of two of one step the later counts.
struct Records {
  std::map<Count, json> by_step;
  Count unreadable = 0, repeated = 0;
  bool torn = false;  // the last line
};

Records read_records(const fs::path& path) {
  Records records;
  const std::string text = read_file(path, "metrics file");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool last = lines.eof();  // without the end of a line
    json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer() ||
        object["step"].get<Count>() < 0) {
      last ? records.torn = true : ++records.unreadable != 0;
      continue;
    }
    const auto step = object["step"].get<Count>();
    if (records.by_step.contains(step)) ++records.repeated;
    records.by_step[step] = std::move(object);
  }
  return records;
}

void note_faults(const Records& records, const std::string& file, std::vector<std::string>& notes) {
  if (records.torn)
    notes.push_back(fmt::format("The last line of {} is cut off: the run is writing it, or was killed then.", file));
  if (records.unreadable > 0)
    notes.push_back(fmt::format("{} of {} cannot be read and {} left out.", counted(records.unreadable, "line"), file,
                                records.unreadable == 1 ? "is" : "are"));
  if (records.repeated > 0)
    notes.push_back(fmt::format("{} {} recorded twice in {}, as if two runs had written it; the later record is shown.",
                                counted(records.repeated, "step"), records.repeated == 1 ? "is" : "are", file));
}

double number_of_text(const std::string& text) {
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  return std::numeric_limits<double>::quiet_NaN();
}

void add_figure(RunRecord& run, Count step, const std::string& name, const json& value) {
  constexpr std::string_view kText = "_text";
  if (value.is_number()) {
    run.figures[name].add(step, value.get<double>());
  } else if (value.is_boolean()) {
    run.figures[name].add(step, value.get<bool>() ? 1.0 : 0.0);
  } else if (value.is_string() && name.ends_with(kText)) {  // "loss": null, "loss_text": "nan"
    run.figures[name.substr(0, name.size() - kText.size())].add(step, number_of_text(value.get<std::string>()));
  }
}

// Records have objects, and these have numbers.
void add_figures(RunRecord& run, Count step, const json& object) {
  for (const auto& [key, value] : object.items()) {
    add_figure(run, step, key, value);
    if (!value.is_object()) continue;
    for (const auto& [inner, number] : value.items()) add_figure(run, step, key + "." + inner, number);
  }
}

void take_facts(RunRecord& run, const json& object) {
  const json facts = object.value("run", json());
  if (!facts.is_object()) return;
  if (facts.contains("ranks") && facts["ranks"].is_number_integer()) run.rank_count = facts["ranks"].get<Count>();
  if (facts.contains("layout") && facts["layout"].is_string()) run.layout = facts["layout"].get<std::string>();
  if (facts.contains("unit") && facts["unit"].is_string()) run.unit = facts["unit"].get<std::string>();
  if (facts.contains("entropy_floor") && facts["entropy_floor"].is_number())
    run.entropy_floor = facts["entropy_floor"].get<double>();
}

void read_metrics(RunRecord& run) {
  const fs::path path = run.folder / "metrics.jsonl";
  std::error_code error;
  if (!fs::exists(path, error)) {
    fail(ExitCode::io, "{}: not a run folder: it has no metrics.jsonl, which a run writes from its first step on",
         run.folder.string());
  }
  const Records records = read_records(path);
  if (records.by_step.empty()) fail(ExitCode::io, "{}: no step is recorded there yet", path.string());
  note_faults(records, "metrics.jsonl", run.notes);
  for (const auto& [step, object] : records.by_step) {
    add_figures(run, step, object);
    take_facts(run, object);
  }
}

std::vector<double> numbers_of(const json& object, const char* key) {
  const json list = object.value(key, json());
  std::vector<double> numbers;
  if (!list.is_array()) return numbers;
  for (const json& value : list)
    numbers.push_back(value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN());
  return numbers;
}

// Lines of other numbers of ranks than the last have are of an earlier part of the run.
void read_ranks(RunRecord& run) {
  const fs::path path = run.folder / "ranks.jsonl";
  std::error_code error;
  if (!fs::exists(path, error)) return;
  const Records records = read_records(path);
  note_faults(records, "ranks.jsonl", run.notes);
  if (records.by_step.empty()) return;
  const std::size_t ranks = numbers_of(records.by_step.rbegin()->second, "times").size();
  for (const auto& [step, object] : records.by_step) {
    std::vector<double> times = numbers_of(object, "times");
    if (times.size() != ranks) continue;
    run.ranks.steps.push_back(step);
    run.ranks.times.push_back(std::move(times));
  }
}

Bytes size_of_folder(const fs::path& folder) {
  Bytes bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (!entry->is_regular_file(error)) continue;
    const auto size = entry->file_size(error);
    if (!error) bytes += static_cast<Bytes>(size);  // else it was removed meanwhile
  }
  return bytes;
}

void read_samples(RunRecord& run) {
  const fs::path path = run.folder / "samples.jsonl";
  std::error_code error;
  if (!fs::exists(path, error)) return;
  for (const auto& [step, object] : read_records(path).by_step) {
    if (object.contains("text") && object["text"].is_string()) run.samples.push_back({step, object["text"].get<std::string>()});
  }
}

}  // namespace

const StepSeries* RunRecord::find(const std::string& figure) const {
  const auto found = figures.find(figure);
  return found == figures.end() ? nullptr : &found->second;
}

Count RunRecord::last_step() const {
  const StepSeries* const loss = find("loss");
  return loss == nullptr ? 0 : loss->steps.back();
}

RunRecord read_run_record(const fs::path& folder) {
  RunRecord run;
  run.folder = folder;
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(folder, error);
  run.name = (error ? folder : whole).filename().string();
  read_metrics(run);
  read_ranks(run);
  read_samples(run);
  if (fs::exists(folder / "run.toml", error)) {
    run.run_file = read_file(folder / "run.toml", "run file");
  } else {
    run.notes.emplace_back("There is no run.toml, so the run's settings are not known.");
  }
  for (const StoredCheckpoint& stored : list_checkpoints(folder))
    run.checkpoints.push_back({stored.step, size_of_folder(stored.folder)});
  return run;
}

}  // namespace cohort
