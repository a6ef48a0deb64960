#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/error.hpp"
#include "base/text.hpp"
#include "commands/ckpt/diff.hpp"
#include "commands/ckpt/output.hpp"
#include "config/run_file.hpp"
#include "config/schema.hpp"

namespace cohort {
namespace {

const char* words_for(TensorComparison result) {
  switch (result) {
    case TensorComparison::equal:
      return "equal";
    case TensorComparison::unequal:
      return "different";
    case TensorComparison::only_in_first:
      return "only in A";
    case TensorComparison::only_in_second:
      return "only in B";
    case TensorComparison::other_shape:
      return "different shape";
    case TensorComparison::other_dtype:
      return "different type";
  }
  return "";
}

bool has_figures(const TensorDifference& tensor) { return tensor.result == TensorComparison::unequal; }

/// What cannot be compared comes first.
double weight_of(const TensorDifference& tensor) {
  return has_figures(tensor) ? tensor.absolute : std::numeric_limits<double>::infinity();
}

/// Those that differ, by falling difference.
std::vector<TensorDifference> sorted(const std::vector<TensorDifference>& tensors) {
  std::vector<TensorDifference> unequal;
  for (const TensorDifference& tensor : tensors) {
    if (tensor.result != TensorComparison::equal) unequal.push_back(tensor);
  }
  std::stable_sort(unequal.begin(), unequal.end(), [](const auto& a, const auto& b) { return weight_of(a) > weight_of(b); });
  return unequal;
}

std::size_t shown_of(std::size_t count, Count limit) {
  return limit == 0 ? count : std::min(count, static_cast<std::size_t>(limit));
}

std::string rest_of(std::size_t count, std::size_t shown) {
  return count > shown ? fmt::format("... and {} more (--limit 0 shows all)\n", count - shown) : "";
}

std::string list_of(const char* title, const std::vector<StateDifference>& differences) {
  if (differences.empty()) return "";
  Table table({title, "A", "B"});
  for (const StateDifference& difference : differences) {
    const auto one_line = [](const std::string& text) { return text.empty() ? "-" : join(split(text, '\n'), "; "); };
    table.add({difference.name, one_line(difference.a), one_line(difference.b)});
  }
  return "\n" + table.str(3);
}

nlohmann::ordered_json as_json(const TensorDifference& tensor) {
  nlohmann::ordered_json json{{"name", tensor.name}, {"result", words_for(tensor.result)}, {"elements", tensor.elements}};
  if (!tensor.note.empty()) json["note"] = tensor.note;
  if (!has_figures(tensor)) return json;
  json["different"] = tensor.different;
  json["largest_absolute"] = tensor.absolute;
  json["largest_relative"] = tensor.relative;
  json["rms"] = tensor.root_mean_square();
  json["first"] = tensor.first;
  return json;
}

nlohmann::ordered_json as_json(const std::vector<StateDifference>& differences) {
  auto json = nlohmann::ordered_json::array();
  for (const StateDifference& difference : differences) {
    json.push_back({{"name", difference.name}, {"a", difference.a}, {"b", difference.b}, {"decides", difference.decides}});
  }
  return json;
}

/// The largest of all tensors' differences; only of those that can be compared.
const TensorDifference* worst_of(const std::vector<TensorDifference>& tensors) {
  const TensorDifference* worst = nullptr;
  for (const TensorDifference& tensor : tensors) {
    if (has_figures(tensor) && (worst == nullptr || tensor.absolute > worst->absolute)) worst = &tensor;
  }
  return worst;
}

}  // namespace

Count CheckpointDifference::unequal_tensors() const {
  return std::count_if(tensors.begin(), tensors.end(),
                       [](const auto& tensor) { return tensor.result != TensorComparison::equal; });
}

bool CheckpointDifference::unequal() const {
  return unequal_tensors() > 0 || std::any_of(state.begin(), state.end(), [](const auto& fact) { return fact.decides; });
}

std::vector<StateDifference> compare_run_files(const std::string& a, const std::string& b) {
  if (a == b) return {};
  RunConfig first, second;
  try {
    first = parse_saved_run_file(a, "the run file of A");
    second = parse_saved_run_file(b, "the run file of B");
  } catch (const Error& error) {  // of another version of Cohort
    return {StateDifference{"(texts differ)", error.what(), "", false}};
  }
  std::vector<StateDifference> differences;
  for (const KeySpec& key : all_keys()) {
    const std::string value_a = value_as_toml(key, first);
    const std::string value_b = value_as_toml(key, second);
    if (value_a != value_b) differences.push_back({key.full_name(), value_a, value_b, false});
  }
  return differences;
}

std::string as_text(const CheckpointDifference& difference, Count limit) {
  const std::vector<TensorDifference> unequal = sorted(difference.tensors);
  const std::size_t shown = shown_of(unequal.size(), limit);
  std::string text;
  if (!unequal.empty()) {
    Table table({"tensor", "", "elements", "different", "largest |a-b|", "relative", "rms", "first at"});
    for (std::size_t i = 0; i < shown; ++i) {
      const TensorDifference& tensor = unequal[i];
      std::vector<std::string> row{tensor.name, words_for(tensor.result), std::to_string(tensor.elements)};
      if (has_figures(tensor)) {
        row.insert(row.end(), {std::to_string(tensor.different), short_number(tensor.absolute), short_number(tensor.relative),
                               short_number(tensor.root_mean_square()), fmt::format("[{}]", fmt::join(tensor.first, ", "))});
      } else {
        row.push_back(tensor.note);
      }
      table.add(std::move(row));
    }
    text += table.str(2) + rest_of(unequal.size(), shown);
  }
  text += list_of("training state", difference.state) + list_of("run file", difference.run_file);
  const std::size_t equal = difference.tensors.size() - unequal.size();
  text += fmt::format("{}{} of {} equal: the checkpoints {}\n", text.empty() ? "" : "\n", equal,
                      counted(static_cast<Count>(difference.tensors.size()), "tensor"),
                      difference.unequal() ? "differ" : "are equal in everything that training resumes from");
  return text;
}

nlohmann::ordered_json as_json(const CheckpointDifference& difference, Count limit) {
  const std::vector<TensorDifference> unequal = sorted(difference.tensors);
  nlohmann::ordered_json json{{"step", difference.step},
                              {"equal", !difference.unequal()},
                              {"tensors", difference.tensors.size()},
                              {"unequal_tensors", unequal.size()},
                              {"differences", nlohmann::ordered_json::array()}};
  for (std::size_t i = 0; i < shown_of(unequal.size(), limit); ++i) json["differences"].push_back(as_json(unequal[i]));
  json["state"] = as_json(difference.state);
  json["run_file"] = as_json(difference.run_file);
  return json;
}

std::string as_text(const std::vector<CheckpointDifference>& steps, Count limit) {
  Table table({"step", "tensors that differ", "largest |a-b|", "relative", "in"});
  std::map<std::string, std::pair<Count, TensorDifference>> first;  // where each tensor differs first
  std::map<std::string, TensorDifference> last;
  for (const CheckpointDifference& step : steps) {
    const TensorDifference* worst = worst_of(step.tensors);
    table.add({std::to_string(step.step), fmt::format("{} of {}", step.unequal_tensors(), step.tensors.size()),
               worst == nullptr ? "-" : short_number(worst->absolute), worst == nullptr ? "-" : short_number(worst->relative),
               worst == nullptr ? "" : worst->name});
    for (const TensorDifference& tensor : step.tensors) {
      if (tensor.result == TensorComparison::equal) continue;
      first.try_emplace(tensor.name, step.step, tensor);
      last[tensor.name] = tensor;
    }
  }
  std::string text = table.str(5);
  if (first.empty()) {
    const auto other = std::find_if(steps.begin(), steps.end(), [](const auto& step) { return step.unequal(); });
    return text + (other == steps.end()
                       ? "\nThe runs are equal at every step that both have.\n"
                       : fmt::format("\nAll tensors are equal; the training states differ from step {} on: compare "
                                     "those checkpoints.\n",
                                     other->step));
  }
  std::vector<std::pair<Count, TensorDifference>> rows;
  for (const auto& [name, where] : first) rows.push_back(where);
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, -weight_of(a.second)) < std::pair(b.first, -weight_of(b.second));
  });
  Table first_steps({"tensor", "differs from step", "by", "at the end by"});
  const std::size_t shown = shown_of(rows.size(), limit);
  for (std::size_t i = 0; i < shown; ++i) {
    const auto by = [](const TensorDifference& tensor) {
      return has_figures(tensor) ? short_number(tensor.absolute) : std::string(words_for(tensor.result));
    };
    const TensorDifference& tensor = rows[i].second;
    first_steps.add({tensor.name, std::to_string(rows[i].first), by(tensor), by(last.at(tensor.name))});
  }
  return fmt::format("{}\n{}{}\nThe runs differ from step {} on.\n", text, first_steps.str(1), rest_of(rows.size(), shown),
                     rows.front().first);
}

}  // namespace cohort
