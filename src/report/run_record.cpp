#include "report/run_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.hpp"
#include "base/file.hpp"
#include "checkpoint/store/store.hpp"
#include "report/record_lines.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;  // layers come in the order of the model

void take_facts(RunRecord& run, const ordered_json& object) {
  const ordered_json facts = object.value("run", ordered_json());
  if (!facts.is_object()) return;
  if (facts.contains("ranks") && facts["ranks"].is_number_integer()) run.rank_count = facts["ranks"].get<Count>();
  if (facts.contains("layout") && facts["layout"].is_string()) run.layout = facts["layout"].get<std::string>();
  if (facts.contains("unit") && facts["unit"].is_string()) run.unit = facts["unit"].get<std::string>();
  if (facts.contains("entropy_floor") && facts["entropy_floor"].is_number())
    run.entropy_floor = facts["entropy_floor"].get<double>();
}

// Metrics come by rising step but where a run went back without a word, or another has written here, too: of two records of a
// step the later counts.
class MetricsReader {
 public:
  explicit MetricsReader(RunRecord& run) : run_(run) {}

  void take(Count step, const ordered_json& record) {
    if (!seen_.empty() && step <= seen_.back()) forget(step);
    if (seen_.empty() || step > seen_.back()) {
      seen_.push_back(step);
    } else if (const auto at = std::lower_bound(seen_.begin(), seen_.end(), step); *at != step) {
      seen_.insert(at, step);
    }
    for_each_number(record, [&](const std::string& name, double value) { run_.figures[name].put(step, value); });
    take_facts(run_, record);
  }
  bool empty() const { return seen_.empty(); }
  Count repeated() const { return repeated_; }

 private:
  void forget(Count step) {
    if (!std::binary_search(seen_.begin(), seen_.end(), step)) return;
    ++repeated_;
    for (auto& [name, series] : run_.figures) series.erase(step);
  }

  RunRecord& run_;
  std::vector<Count> seen_;  // by rising step
  Count repeated_ = 0;
};

void read_metrics(RunRecord& run) {
  const fs::path path = run.folder / "metrics.jsonl";
  std::error_code error;
  if (!fs::exists(path, error)) {
    fail(ExitCode::io, "{}: not a run folder: it has no metrics.jsonl, which a run writes from its first step on",
         run.folder.string());
  }
  MetricsReader reader(run);
  LineFaults faults = for_each_record(path, [&](Count step, const ordered_json& record) { reader.take(step, record); });
  if (reader.empty()) fail(ExitCode::io, "{}: no step is recorded there yet", path.string());
  faults.repeated = reader.repeated();
  note_faults(faults, "metrics.jsonl", run.notes);
}

// A file that a run may have or not.
void read_if_there(RunRecord& run, const std::string& file, const std::function<bool(Count, const ordered_json&)>& take) {
  const fs::path path = run.folder / file;
  std::error_code error;
  if (!fs::exists(path, error)) return;
  Count repeated = 0;
  LineFaults faults =
      for_each_record(path, [&](Count step, const ordered_json& record) { repeated += take(step, record) ? 1 : 0; });
  faults.repeated = repeated;
  note_faults(faults, file, run.notes);
}

void read_ranks(RunRecord& run) {
  read_if_there(run, "ranks.jsonl", [&](Count step, const ordered_json& record) {
    const ordered_json* const list = record.contains("times") ? &record["times"] : nullptr;
    std::vector<double> times;
    if (list != nullptr && list->is_array()) {
      for (const ordered_json& value : *list) times.push_back(number_or_nan(value));
    }
    return !times.empty() && run.ranks.add(step, times);
  });
}

double gradient_norm_of(const ordered_json& layer) {
  if (!layer.is_object() || !layer.contains("gradients") || !layer["gradients"].is_object())
    return std::numeric_limits<double>::quiet_NaN();
  return number_or_nan(layer["gradients"].value("norm", ordered_json()));
}

void read_layers(RunRecord& run) {
  read_if_there(run, "layers.jsonl", [&](Count step, const ordered_json& record) {
    if (!record.contains("layers") || !record["layers"].is_object()) return false;
    std::vector<std::string> units;
    std::vector<double> norms;
    for (const auto& [unit, layer] : record["layers"].items()) {
      units.push_back(unit);
      norms.push_back(gradient_norm_of(layer));
    }
    if (norms.empty()) return false;
    run.gradients.units = std::move(units);
    return run.gradients.map.add(step, norms);
  });
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
  for_each_record(path, [&](Count step, const ordered_json& object) {
    if (object.contains("text") && object["text"].is_string()) run.samples.push_back({step, object["text"].get<std::string>()});
  });
}

}  // namespace

void StepSeries::put(Count step, double value) {
  if (steps.empty() || step > steps.back()) return add(step, value);
  const auto at = std::lower_bound(steps.begin(), steps.end(), step);
  const auto place = at - steps.begin();
  if (at != steps.end() && *at == step) {
    values[static_cast<std::size_t>(place)] = value;
  } else {
    steps.insert(at, step);
    values.insert(values.begin() + place, value);
  }
}

void StepSeries::erase(Count step) {
  const auto at = std::lower_bound(steps.begin(), steps.end(), step);
  if (at == steps.end() || *at != step) return;
  values.erase(values.begin() + (at - steps.begin()));
  steps.erase(at);
}

bool RankRecord::add(Count step, const std::vector<double>& times) {
  if (times.size() != slow.size()) {
    reports = 0;
    slow.assign(times.size(), {});
  }
  ++reports;
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    if (!(times[rank] > kSlow)) continue;
    if (slow[rank].reports++ == 0) slow[rank].first = step;
    slow[rank].most = std::max(slow[rank].most, times[rank]);
  }
  return map.add(step, times);
}

const StepSeries* RunRecord::find(const std::string& figure) const {
  const auto found = figures.find(figure);
  return found == figures.end() || found->second.empty() ? nullptr : &found->second;
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
  read_layers(run);
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
