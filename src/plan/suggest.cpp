#include "plan/suggest.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "config/model_rules.hpp"
#include "mesh/mesh_shape.hpp"
#include "plan/memory.hpp"
#include "plan/traffic.hpp"

namespace cohort {
namespace {

constexpr Count kLeastTokens = 1024;  // of a sample on a rank of cp

// The strategies, or schedules, worth weighing for a mesh, as words of layout_from_words().
std::vector<std::string> ways_to_run(const MeshShape& mesh, int ranks_per_node) {
  const int replicas = mesh.size({Axis::dp, Axis::cp});
  if (mesh.size(Axis::pp) > 1) {
    const std::string data = replicas > 1 ? ",data=zero1" : ",data=bucketed";
    return {data, data + ",schedule=interleaved,chunks=2"};
  }
  if (replicas == 1) return {",data=bucketed"};
  std::vector<std::string> ways{",data=bucketed", ",data=zero1", ",data=zero2", ",data=zero3"};
  const int of_node = ranks_per_node / mesh.size(Axis::tp);
  if (of_node > 1 && of_node < replicas && replicas % of_node == 0)
    ways.push_back(fmt::format(",data=zero3,shard_ranks={}", of_node));
  return ways;
}

std::vector<std::string> words_of_layouts(const RunConfig& config, int ranks, int ranks_per_node) {
  std::vector<std::string> all;
  const auto every = static_cast<std::size_t>(ranks) * 64;
  for (const MeshShape& mesh : nearest_meshes(MeshShape(ranks, 1, 1, 1), ranks, every)) {
    const int tp = mesh.size(Axis::tp), cp = mesh.size(Axis::cp);
    if (tp > ranks_per_node) continue;  // its messages in every layer would leave the node
    if (cp > 1 && config.model.context / cp < kLeastTokens) continue;
    const std::string degrees = fmt::format("dp={},pp={},cp={},tp={}{}", mesh.size(Axis::dp), mesh.size(Axis::pp), cp, tp,
                                            tp > 1 ? ",sequence=true" : "");
    for (const std::string& way : ways_to_run(mesh, ranks_per_node)) all.push_back(degrees + way);
  }
  return all;
}

}  // namespace

Suggestion weigh_layout(Layout layout, const PlannedMachine& machine) {
  Suggestion one;
  one.layout = std::move(layout);
  const RunConfig& config = one.layout.config;
  const std::vector<CountedStep> stages = count_stages(config);
  one.memory = predict_memory(stages).total;
  for (const Traffic& traffic : predict_traffic(stages)) one.moved += traffic.moved();
  if (machine.memory == 0 || one.memory <= machine.memory)
    one.time = predict_step_time(config, stages, machine.profile, machine.ranks_per_node);
  return one;
}

Suggestions suggest_layouts(const RunConfig& config, int ranks, const PlannedMachine& machine) {
  Suggestions suggestions;
  for (const std::string& words : words_of_layouts(config, ranks, machine.ranks_per_node)) {
    try {
      Suggestion one = weigh_layout(layout_from_words(config, words, ranks), machine);
      (one.time.seconds > 0.0 ? suggestions.fitting : suggestions.too_large).push_back(std::move(one));
    } catch (const Error& error) {
      if (error.code() != ExitCode::config) throw;
      const std::string reason = error.what();
      const auto& known = suggestions.refused;
      if (std::find(known.begin(), known.end(), reason) == known.end()) suggestions.refused.push_back(reason);
    }
  }
  std::stable_sort(suggestions.fitting.begin(), suggestions.fitting.end(),
                   [](const Suggestion& a, const Suggestion& b) { return a.time.seconds < b.time.seconds; });
  std::stable_sort(suggestions.too_large.begin(), suggestions.too_large.end(),
                   [](const Suggestion& a, const Suggestion& b) { return a.memory < b.memory; });
  return suggestions;
}

std::string words_of_split(const StepSplit& split) {
  const double total = split.total();
  std::vector<std::pair<double, std::string>> parts{
      {split.computing(), "computing"}, {split.host_copies, "waiting for host copies"}, {split.bubble, "bubble"}};
  for (const auto& [group, seconds] : split.exposed) parts.emplace_back(seconds, "waiting for " + group);
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  constexpr double kLeast = 0.005;
  std::vector<std::string> words;
  for (const auto& [seconds, what] : parts) {
    if (seconds >= kLeast * total) words.push_back(fmt::format("{:.0f} % {}", 100.0 * seconds / total, what));
  }
  return join(words);
}

}  // namespace cohort
