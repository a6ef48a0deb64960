#include "report/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/text.hpp"
#include "config/run_file.hpp"
#include "config/schema.hpp"
#include "report/series.hpp"

namespace cohort {
namespace {

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

std::optional<double> lowest(const StepSeries* series) {
  if (series == nullptr) return std::nullopt;
  std::optional<double> least;
  for (const double value : series->values) {
    if (std::isfinite(value) && (!least || value < *least)) least = value;
  }
  return least;
}

double sum_of(const StepSeries* series) {
  return series == nullptr ? 0.0 : std::accumulate(series->values.begin(), series->values.end(), 0.0);
}

// The first step whose validation loss is at most `loss`.
std::optional<Count> first_at_most(const StepSeries& validation, double loss) {
  for (std::size_t i = 0; i < validation.steps.size(); ++i) {
    if (validation.values[i] <= loss) return validation.steps[i];
  }
  return std::nullopt;
}

// Which of two is better, by the lowest validation losses.
std::string better_of(const RunRecord& a, const RunRecord& b) {
  const StepSeries *const of_a = a.find("validation_loss"), *const of_b = b.find("validation_loss");
  const std::optional<double> low_a = lowest(of_a), low_b = lowest(of_b);
  if (!low_a || !low_b || *low_a == *low_b) return "";
  const bool a_wins = *low_a < *low_b;
  const RunRecord &winner = a_wins ? a : b, &loser = a_wins ? b : a;
  const double least = std::min(*low_a, *low_b), other = std::max(*low_a, *low_b);
  std::string text =
      fmt::format(" {} has the lower validation loss, {:.4f} against {:.4f} of {}", winner.name, least, other, loser.name);
  if (const std::optional<Count> step = first_at_most(a_wins ? *of_a : *of_b, other))
    text += fmt::format("; it was there by step {}", *step);
  return text + ".";
}

}  // namespace

void tell_names_apart(std::span<RunRecord> runs) {
  const auto named = [&](const std::string& name) {
    return std::count_if(runs.begin(), runs.end(), [&](const RunRecord& run) { return run.name == name; });
  };
  std::vector<std::string> names;
  for (const RunRecord& run : runs) names.push_back(named(run.name) > 1 ? run.folder.string() : run.name);
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].name = names[i];
}

LossComparison compare_losses(const RunRecord& a, const RunRecord& b) {
  LossComparison result;
  const StepSeries *const of_a = a.find("loss"), *const of_b = b.find("loss");
  if (of_a == nullptr || of_b == nullptr) return result;
  for (std::size_t i = 0, j = 0; i < of_a->steps.size() && j < of_b->steps.size();) {
    if (of_a->steps[i] != of_b->steps[j]) {
      of_a->steps[i] < of_b->steps[j] ? ++i : ++j;
      continue;
    }
    const double x = of_a->values[i], y = of_b->values[j];
    const Count step = of_a->steps[i];
    if (result.common_steps == 0) result.first_common = step;
    ++i, ++j, ++result.common_steps;
    if (same_number(x, y)) continue;
    if (result.first_difference == 0) result.first_difference = step;
    const double difference = std::abs(x - y) / std::abs(x);
    if (!(difference <= 0.01) && result.beyond_a_percent == 0) result.beyond_a_percent = step;  // a NaN on one side, too
    if (difference > result.largest_difference) {
      result.largest_difference = difference;
      result.largest_at = step;
    }
  }
  return result;
}

std::string verdict_of(const RunRecord& a, const RunRecord& b) {
  const LossComparison losses = compare_losses(a, b);
  const std::string names = fmt::format("{} and {}", a.name, b.name);
  if (losses.common_steps == 0) return names + " have no step in common.";
  const std::string steps = counted(losses.common_steps, "step");
  if (losses.first_difference == 0)
    return fmt::format("{} have the same losses, bit for bit, in all {} that both have.", names, steps);
  std::string text =
      losses.first_difference == losses.first_common
          ? fmt::format("{} differ in step {}, the first that both have", names, losses.first_difference)
          : fmt::format("{} first differ in step {}, and are the same before, bit for bit", names, losses.first_difference);
  if (losses.beyond_a_percent == 0) {
    text += fmt::format("; over {} their losses stay within {:.1e} of each other, which is furthest in step {}", steps,
                        losses.largest_difference, losses.largest_at);
  } else {
    text += fmt::format("; their losses first differ by more than 1 % in step {}", losses.beyond_a_percent);
  }
  return text + "." + better_of(a, b);
}

std::string comparison_table(std::span<const RunRecord> runs) {
  std::vector<std::string> header{""};
  for (const RunRecord& run : runs) header.push_back(run.name);
  Table table(header);
  const auto add = [&](const char* label, const auto& cell) {
    std::vector<std::string> row{label};
    for (const RunRecord& run : runs) row.push_back(cell(run));
    if (std::any_of(row.begin() + 1, row.end(), [](const std::string& text) { return !text.empty(); })) table.add(std::move(row));
  };
  const auto number = [](std::optional<double> value) { return value ? fmt::format("{:.4f}", *value) : ""; };
  add("steps", [](const RunRecord& run) { return fmt::format("{}", run.last_step()); });
  add("ranks", [](const RunRecord& run) { return run.rank_count ? fmt::format("{}", *run.rank_count) : ""; });
  add("layout", [](const RunRecord& run) { return run.layout; });
  add("loss, smoothed", [&](const RunRecord& run) {
    const StepSeries* const loss = run.find("loss");
    const StepSeries smooth = loss == nullptr ? StepSeries{} : smoothed(*loss);
    return smooth.empty() ? "" : fmt::format("{:.4f}", smooth.values.back());
  });
  add("lowest validation loss", [&](const RunRecord& run) { return number(lowest(run.find("validation_loss"))); });
  add("lowest bits per byte", [&](const RunRecord& run) { return number(lowest(run.find("validation_bits_per_byte"))); });
  add("length", [](const RunRecord& run) { return fmt::format("{} {}", human_count(sum_of(run.find("tokens"))), run.unit); });
  add("speed, median", [](const RunRecord& run) {
    const StepSeries* const rate = run.find("tokens_per_second");
    return rate == nullptr ? "" : fmt::format("{} {}/s", human_count(median_of(rate->values)), run.unit);
  });
  add("MFU, median", [](const RunRecord& run) {
    const StepSeries* const mfu = run.find("mfu");
    return mfu == nullptr ? "" : fmt::format("{:.1f} %", 100.0 * median_of(mfu->values));
  });
  add("exposed communication, median", [](const RunRecord& run) {
    const StepSeries* const exposed = run.find("exposed_communication");
    return exposed == nullptr ? "" : fmt::format("{:.1f} %", 100.0 * median_of(exposed->values));
  });
  add("time", [](const RunRecord& run) { return human_seconds(sum_of(run.find("seconds.step"))); });
  add("memory of a rank", [](const RunRecord& run) {
    const StepSeries* const memory = run.find("memory.max");
    return memory == nullptr ? ""
                             : human_bytes(static_cast<Bytes>(*std::max_element(memory->values.begin(), memory->values.end())));
  });
  return table.str();
}

std::vector<std::string> differing_keys(std::span<const RunRecord> runs) {
  std::vector<RunConfig> configs;
  for (const RunRecord& run : runs) configs.push_back(parse_saved_run_file(run.run_file, (run.folder / "run.toml").string()));
  std::vector<std::string> differing;
  for (const KeySpec& key : all_keys()) {
    const std::string name = key.full_name();
    if (name == "run.name" || name == "run.directory") continue;
    std::vector<std::string> values;
    for (const RunConfig& config : configs) values.push_back(value_as_toml(key, config));
    if (std::any_of(values.begin(), values.end(), [&](const std::string& value) { return value != values.front(); }))
      differing.push_back(fmt::format("{}: {}", name, join(values)));
  }
  return differing;
}

}  // namespace cohort
