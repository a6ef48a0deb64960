#include "plan/suggest.hpp"

#include <algorithm>

#include "config/model_rules.hpp"
#include "config/pipeline.hpp"
#include "mesh/mesh_shape.hpp"
#include "models/model.hpp"
#include "plan/memory.hpp"
#include "plan/traffic.hpp"

namespace cohort {
namespace {

Suggestion weigh(Layout layout, const RankSpeed& speed, double flops_of_step) {
  Suggestion one{.layout = std::move(layout)};
  const RunConfig& config = one.layout.config;
  const std::vector<CountedStep> stages = count_stages(config);
  one.memory = predict_memory(stages).total;
  for (const Traffic& traffic : predict_traffic(stages)) one.moved += traffic.moved();
  if (config.parallel.pp > 1) one.bubble = pipeline::bubble_formula(schedule_of(config.parallel, config.train.accumulation));
  const double work = flops_of_step / one.layout.ranks / speed.flops_per_second;
  one.seconds = work / (1.0 - one.bubble) + static_cast<double>(one.moved) / speed.bytes_per_second;
  return one;
}

// Every layout of the ranks in the words of layout_from_words().
std::vector<std::string> words_of_layouts(int ranks) {
  std::vector<std::string> all;
  const auto every = static_cast<std::size_t>(ranks) * 64;
  for (const MeshShape& mesh : nearest_meshes(MeshShape(ranks, 1, 1, 1), ranks, every)) {
    std::string degrees = fmt::format("dp={},pp={},cp={},tp={}", mesh.size(Axis::dp), mesh.size(Axis::pp), mesh.size(Axis::cp),
                                      mesh.size(Axis::tp));
    if (mesh.size(Axis::tp) > 1) degrees += ",sequence=true";
    const bool replicas = mesh.size({Axis::dp, Axis::cp}) > 1;
    all.push_back(degrees + ",data=bucketed");
    if (replicas) all.push_back(degrees + ",data=zero1");
    if (!replicas || mesh.size(Axis::pp) > 1) continue;
    all.push_back(degrees + ",data=zero2");
    all.push_back(degrees + ",data=zero3");
  }
  return all;
}

}  // namespace

RankSpeed usual_speed(DeviceKind device) { return device == DeviceKind::gpu ? RankSpeed{300e12, 50e9} : RankSpeed{50e9, 1e9}; }

Suggestions suggest_layouts(const RunConfig& config, int ranks, Bytes most_memory, const RankSpeed& speed) {
  const Count tokens = units_per_sample(config.model);
  const double flops =
      declare_model(config.model)->flops_per_token(tokens) * static_cast<double>(tokens * config.train.global_batch);
  Suggestions suggestions;
  for (const std::string& words : words_of_layouts(ranks)) {
    try {
      Suggestion one = weigh(layout_from_words(config, words, ranks), speed, flops);
      if (suggestions.least_memory == 0 || one.memory < suggestions.least_memory) suggestions.least_memory = one.memory;
      if (most_memory == 0 || one.memory <= most_memory) suggestions.fitting.push_back(std::move(one));
    } catch (const Error& error) {
      if (error.code() != ExitCode::config) throw;
      const std::string reason = error.what();
      const auto& known = suggestions.refused;
      if (std::find(known.begin(), known.end(), reason) == known.end()) suggestions.refused.push_back(reason);
    }
  }
  std::stable_sort(suggestions.fitting.begin(), suggestions.fitting.end(),
                   [](const Suggestion& a, const Suggestion& b) { return a.seconds < b.seconds; });
  return suggestions;
}

}  // namespace cohort
