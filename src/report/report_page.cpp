#include "report/report_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/xml.hpp"
#include "observe/timers.hpp"
#include "page_parts.hpp"
#include "report/findings.hpp"
#include "report/series.hpp"

namespace cohort {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kPoints = 2000;    // of a curve: a screen has about as many pixels
constexpr std::size_t kStretches = 200;  // of what is averaged
constexpr std::size_t kMapRows = 256;    // of a map of ranks or layers

// Six digits: what a picture of a thousand pixels can show; of colours, fewer.
ordered_json short_number(double value, int digits = 6) {
  if (!std::isfinite(value)) return nullptr;
  return ordered_json::parse(fmt::format("{:.{}g}", value, digits));
}

ordered_json points_of(const StepSeries& series) {
  ordered_json x = ordered_json::array(), y = ordered_json::array();
  for (std::size_t i = 0; i < series.steps.size(); ++i) {
    x.push_back(series.steps[i]);
    y.push_back(short_number(series.values[i]));
  }
  return {{"x", std::move(x)}, {"y", std::move(y)}};
}

// From steps to units and to seconds of the run, for the other axes.
ordered_json axes_of(const RunRecord& run) {
  ordered_json axes = ordered_json::object();
  for (const auto& [name, figure] : {std::pair{"units", "tokens"}, {"seconds", "seconds.step"}}) {
    const StepSeries* const series = run.find(figure);
    if (series != nullptr) axes[name] = points_of(thinned(accumulated(*series), kPoints / 2));
  }
  return axes;
}

ordered_json curves_of(const RunRecord& run) {
  ordered_json curves = ordered_json::object();
  for (const auto& [name, figure] : {std::pair{"loss", "loss"},
                                     {"validation", "validation_loss"},
                                     {"learning_rate", "learning_rate"},
                                     {"gradient_norm", "gradient_norm"},
                                     {"rate", "tokens_per_second"},
                                     {"mfu", "mfu"},
                                     {"memory", "memory.max"},
                                     {"exposed", "exposed_communication"},
                                     {"bits_per_byte", "validation_bits_per_byte"},
                                     {"loss_scale", "loss_scale"}}) {
    if (const StepSeries* const series = run.find(figure)) curves[name] = points_of(thinned(*series, kPoints));
  }
  if (const StepSeries* const loss = run.find("loss")) curves["smooth"] = points_of(thinned(smoothed(*loss), kPoints));
  return curves;
}

// Seconds a step by phase, in the order in which they run.
ordered_json phases_of(const RunRecord& run) {
  ordered_json phases = ordered_json::object();
  for (const Phase phase : kPhases) {
    const std::string name(name_of(phase));
    const StepSeries* const series = run.find("seconds." + name);
    if (series == nullptr) continue;
    if (std::any_of(series->values.begin(), series->values.end(), [](double value) { return value > 0.0; }))
      phases[name] = points_of(averaged(*series, kStretches));
  }
  return phases;
}

// A column a stretch of steps. Of more rows than there is room for neighbours share one, which shows the largest.
ordered_json map_of(const HeatMap& map) {
  const std::size_t all = map.rows(), rows = std::min(all, kMapRows);
  ordered_json cells = ordered_json::array(), first_steps = ordered_json::array(), steps = ordered_json::array();
  for (const HeatMap::Column& column : map.columns()) {
    std::vector<double> values(rows, std::numeric_limits<double>::quiet_NaN());
    for (std::size_t row = 0; row < all; ++row) {
      double& value = values[row * rows / all];
      if (!(value >= column.values[row]) && !std::isnan(column.values[row])) value = column.values[row];
    }
    ordered_json list = ordered_json::array();
    for (const double value : values) list.push_back(short_number(value, 4));
    cells.push_back(std::move(list));
    first_steps.push_back(column.first_step);
    steps.push_back(column.last_step);
  }
  return {{"rows", all}, {"first_steps", std::move(first_steps)}, {"steps", std::move(steps)}, {"cells", std::move(cells)}};
}

ordered_json ranks_of(const RunRecord& run) { return run.ranks.map.rows() < 2 ? ordered_json() : map_of(run.ranks.map); }

ordered_json gradients_of(const RunRecord& run) {
  if (run.gradients.map.empty()) return nullptr;
  ordered_json gradients = map_of(run.gradients.map);
  gradients["units"] = run.gradients.units;
  return gradients;
}

double sum_of(const StepSeries* series) {
  double sum = 0.0;
  for (std::size_t i = 0; series != nullptr && i < series->values.size(); ++i) {
    if (std::isfinite(series->values[i])) sum += series->values[i];
  }
  return sum;
}

// Label and value, for the head of the run.
ordered_json tiles_of(const RunRecord& run) {
  ordered_json tiles = ordered_json::array();
  const auto add = [&](const char* label, const std::string& value) { tiles.push_back({label, value}); };
  add("step", fmt::format("{}", run.last_step()));
  if (const StepSeries* const loss = run.find("loss"))
    add("loss", fmt::format("{:.4f}", smoothed(*loss).values.empty() ? NAN : smoothed(*loss).values.back()));
  if (const StepSeries* const validation = run.find("validation_loss"))
    add("lowest validation loss", fmt::format("{:.4f}", least_of(validation->values)));
  if (run.entropy_floor) add("entropy of the corpus", fmt::format("{:.4f}", *run.entropy_floor));
  add(run.unit == "tokens" ? "tokens" : "samples", human_count(sum_of(run.find("tokens"))));
  if (const StepSeries* const rate = run.find("tokens_per_second"))
    add(run.unit == "tokens" ? "tokens/s, median" : "samples/s, median", human_count(median_of(rate->values)));
  if (const StepSeries* const mfu = run.find("mfu")) add("MFU, median", fmt::format("{:.1f} %", 100.0 * median_of(mfu->values)));
  if (const StepSeries* const exposed = run.find("exposed_communication"))
    add("exposed communication, median", fmt::format("{:.1f} %", 100.0 * median_of(exposed->values)));
  add("time", human_seconds(sum_of(run.find("seconds.step"))));
  if (const StepSeries* const memory = run.find("memory.max"))
    add("memory of a rank", human_bytes(static_cast<Bytes>(*std::max_element(memory->values.begin(), memory->values.end()))));
  if (run.rank_count) add("ranks", fmt::format("{}", *run.rank_count));
  return tiles;
}

// Inside a <script>, "</script" would end it and "<!--" change what ends it, whatever they stand in.
std::string inside_script(const std::string& json) {
  std::string safe;
  safe.reserve(json.size());
  for (const char letter : json) {
    if (letter == '<') {
      safe += "\\u003c";
    } else {
      safe += letter;
    }
  }
  return safe;
}

std::string replaced(std::string text, const std::string& mark, const std::string& by) {
  const std::size_t at = text.find(mark);
  COHORT_CHECK(at != std::string::npos, "the page has no {}", mark);
  return text.replace(at, mark.size(), by);
}

}  // namespace

ordered_json report_of(const RunRecord& run, const ordered_json& planned) {
  ordered_json report{{"name", run.name}, {"folder", run.folder.string()}, {"unit", run.unit}, {"layout", run.layout}};
  report["floor"] = run.entropy_floor ? short_number(*run.entropy_floor) : ordered_json();
  report["notes"] = run.notes;
  report["findings"] = ordered_json::array();
  for (const Finding& finding : findings_of(run)) report["findings"].push_back({{"step", finding.step}, {"text", finding.text}});
  report["tiles"] = tiles_of(run);
  report["axes"] = axes_of(run);
  report["curves"] = curves_of(run);
  report["phases"] = phases_of(run);
  report["ranks"] = ranks_of(run);
  report["gradients"] = gradients_of(run);
  report["checkpoints"] = ordered_json::array();
  for (const CheckpointRecord& checkpoint : run.checkpoints)
    report["checkpoints"].push_back({{"step", checkpoint.step}, {"size", human_bytes(checkpoint.bytes)}});
  report["samples"] = ordered_json::array();
  for (const SampleRecord& sample : run.samples) report["samples"].push_back({{"step", sample.step}, {"text", sample.text}});
  report["run_file"] = run.run_file;
  if (planned.is_object()) report.update(planned);
  return report;
}

std::string report_page(std::span<const ordered_json> runs, const std::string& version) {
  std::vector<std::string> names;
  for (const ordered_json& run : runs) names.push_back(run.at("name").get<std::string>());
  const ordered_json data{{"version", version}, {"runs", ordered_json(std::vector<ordered_json>(runs.begin(), runs.end()))}};
  // Bytes of a run's text that are no UTF-8 are shown as such.
  const std::string json = data.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  // From the end to the beginning: a mark in what was put in is never looked at.
  std::string page = replaced(page_parts::kHtml, "{{SCRIPT}}", page_parts::kScript);
  page = replaced(std::move(page), "{{DATA}}", inside_script(json));
  page = replaced(std::move(page), "{{STYLE}}", page_parts::kCss);
  return replaced(std::move(page), "{{TITLE}}", xml_escaped(first_few(names)));
}

}  // namespace cohort
