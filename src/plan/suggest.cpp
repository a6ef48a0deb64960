#include "plan/suggest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/text.hpp"
#include "config/model_rules.hpp"
#include "mesh/mesh_shape.hpp"
#include "parallel/zero/stage.hpp"
#include "plan/memory.hpp"
#include "plan/traffic.hpp"
#include "train/host_memory.hpp"

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

std::string what_lacks(const Suggestion& one, const PlannedMachine& machine) {
  if (machine.memory > 0 && one.memory > machine.memory) return human_bytes(one.memory) + " on a rank";
  if (machine.host_memory > 0 && one.host > machine.host_memory) return human_bytes(one.host) + " of host memory on a node";
  return "";
}

bool is_faster(const Suggestion& a, const Suggestion& b) { return a.time.seconds < b.time.seconds; }
bool is_smaller(const Suggestion& a, const Suggestion& b) { return a.memory < b.memory; }

double waiting_for_tp(const StepSplit& split) {
  const auto found = split.exposed.find(std::string(name_of(Axis::tp)));
  return found == split.exposed.end() ? 0.0 : found->second;
}

// What a layout has beside what the run says: whether activations are offloaded, and, where that is set, of how many layers they
// are recomputed.
struct Activations {
  bool offloaded = false;
  std::optional<Count> checkpointed_layers = {};
};

void checkpoint(Count layers, ModelSection& model) {
  if (layers == 0) model.activation_checkpointing = "none";
  model.checkpointed_layers = layers;
}

class Search {
 public:
  Search(const RunConfig& config, int ranks, const PlannedMachine& machine)
      : config_(config),
        ranks_(ranks),
        machine_(machine),
        may_offload_(machine.profile.device == DeviceKind::gpu),
        may_offload_activations_(may_offload_ && !config.model.activation_offload && attention_of(config.model)),
        may_recompute_less_(machine.memory > 0 && config.model.activation_checkpointing != "none" &&
                            config.model.checkpointed_layers == 0) {}

  Suggestions find() {
    for (const std::string& words : words_of_layouts(config_, ranks_, machine_.ranks_per_node)) consider(words);
    std::stable_sort(found_.fitting.begin(), found_.fitting.end(), is_faster);
    overlap();
    std::stable_sort(found_.fitting.begin(), found_.fitting.end(), is_faster);
    if (may_recompute_less_) recompute_less();
    std::stable_sort(found_.fitting.begin(), found_.fitting.end(), is_faster);
    if (may_offload_ && found_.fitting.empty()) offload_optimizers();
    std::stable_sort(found_.untimed.begin(), found_.untimed.end(), is_smaller);
    std::stable_sort(found_.too_large.begin(), found_.too_large.end(), is_smaller);
    return std::move(found_);
  }

 private:
  // Nothing if the run refuses the layout, for which there is then a reason.
  std::optional<Suggestion> weigh(const std::string& words, Activations activations = {}) {
    try {
      RunConfig run = config_;
      if (activations.offloaded) run.model.activation_offload = true;
      if (activations.checkpointed_layers) checkpoint(*activations.checkpointed_layers, run.model);
      Layout layout = layout_from_words(run, words, ranks_);
      if (activations.offloaded) layout.name += ", activations offloaded";
      if (const auto layers = activations.checkpointed_layers)
        layout.name +=
            *layers == 0 ? ", no checkpointing" : fmt::format(", {} of {} layers checkpointed", *layers, run.model.layers);
      Suggestion one = weigh_layout(std::move(layout), machine_);
      one.words = words;
      return one;
    } catch (const Error& error) {
      if (error.code() != ExitCode::config) throw;
      const std::string reason = error.what();
      auto& known = found_.refused;
      if (std::find(known.begin(), known.end(), reason) == known.end()) known.push_back(reason);
      return std::nullopt;
    }
  }

  void consider(const std::string& words) {
    std::optional<Suggestion> one = weigh(words);
    if (one && !one->lacks.empty() && may_offload_activations_) {
      if (std::optional<Suggestion> offloaded = weigh(words, {.offloaded = true})) {
        if (offloaded->lacks.empty()) {
          one = std::move(offloaded);
        } else {
          one->lacks += fmt::format(", or {} with model.activation_offload = true", offloaded->lacks);
        }
      }
    }
    if (one) (one->lacks.empty() ? found_.fitting : found_.too_large).push_back(*std::move(one));
  }

  // No layout gains more than its waiting for tp, by which the passes of a pipeline are longer, and with them the bubble.
  void overlap() {
    if (found_.fitting.empty() || config_.precision.policy == "fp8") return;  // which rounds whole tensors
    const double seconds_to_beat = found_.fitting[std::min(kFastest, found_.fitting.size()) - 1].time.seconds;
    for (Suggestion& one : found_.fitting) {
      const double waiting = waiting_for_tp(one.time.split);
      const double gain = waiting * one.time.seconds / (one.time.seconds - one.time.split.bubble);
      if (!one.layout.config.parallel.sequence || waiting == 0.0 || one.time.seconds - gain > seconds_to_beat) continue;
      std::optional<Suggestion> overlapped = weigh(one.words + ",tensor_overlap=true", activations_of(one));
      if (overlapped && overlapped->lacks.empty() && is_faster(*overlapped, one)) one = *std::move(overlapped);
    }
  }

  void recompute_less() {
    const std::size_t fastest = std::min(kFastest, found_.fitting.size());
    for (std::size_t i = 0; i < fastest; ++i) {
      if (found_.fitting[i].layout.config.model.activation_offload) {
        offload_some(found_.fitting[i]);
      } else {
        checkpoint_fewest(found_.fitting[i]);
      }
    }
  }

  // Takes its place if it fits and is faster; says whether it fits.
  bool try_checkpointing(Suggestion& one, Activations activations, Count layers) {
    activations.checkpointed_layers = layers;
    std::optional<Suggestion> other = weigh(one.words, activations);
    if (!other || !other->lacks.empty()) return false;
    if (is_faster(*other, one)) one = *std::move(other);
    return true;
  }

  // The fewest layers with which the layout still fits: the fewer, the more it keeps and the less it computes.
  void checkpoint_fewest(Suggestion& one) {
    const Activations activations = activations_of(one);
    Count lacks = -1, fits = config_.model.layers;  // numbers of layers
    while (fits - lacks > 1) {
      const Count layers = lacks < 0 ? 0 : (fits + lacks) / 2;  // none first: often that is enough
      (try_checkpointing(one, activations, layers) ? fits : lacks) = layers;
    }
  }

  // What is offloaded takes as much of the device, however many layers it is of; but too many copies do not hide. Of every k-th
  // layer, whichever k is fastest.
  void offload_some(Suggestion& one) {
    const Activations activations = activations_of(one);
    for (const Count every : {8, 6, 5, 4, 3, 2})
      try_checkpointing(one, activations, config_.model.layers - config_.model.layers / every);
  }

  Activations activations_of(const Suggestion& one) const {
    return {.offloaded = one.layout.config.model.activation_offload != config_.model.activation_offload};
  }

  // Of each layout that shares optimizer state, the least that has to be offloaded.
  void offload_optimizers() {
    for (const Suggestion& one : found_.too_large) {
      const ParallelSection& p = one.layout.config.parallel;
      const int stage = zero_stage(p.data);
      if (p.dp * p.cp == 1) offload(one.words + ",data=zero1,offload=optimizer");  // which is then whole
      if (stage > 0 && offload(one.words + ",offload=optimizer")) continue;
      if (stage == 3) offload(one.words + ",offload=parameters");
    }
  }

  bool offload(const std::string& words) {
    for (const bool activations_too : {false, true}) {
      if (activations_too && !may_offload_activations_) continue;
      std::optional<Suggestion> one = weigh(words, {.offloaded = activations_too});
      if (!one || !one->lacks.empty()) continue;
      found_.untimed.push_back(*std::move(one));
      return true;
    }
    return false;
  }

  static constexpr std::size_t kFastest = 20;  // layouts that are looked at more closely

  const RunConfig& config_;
  int ranks_;
  const PlannedMachine& machine_;
  bool may_offload_, may_offload_activations_;  // on CPUs it gains nothing
  bool may_recompute_less_;
  Suggestions found_;
};

}  // namespace

Suggestion weigh_layout(Layout layout, const PlannedMachine& machine) {
  Suggestion one;
  one.layout = std::move(layout);
  const RunConfig& config = one.layout.config;
  const std::vector<CountedStep> stages = count_stages(config);
  one.memory = predict_memory(stages).total;
  one.host = host_memory_of_node(config, stages, machine.ranks_per_node);
  for (const Traffic& traffic : predict_traffic(stages)) one.moved += traffic.moved();
  one.lacks = what_lacks(one, machine);
  if (one.lacks.empty() && config.parallel.offload == "none")
    one.time = predict_step_time(config, stages, machine.profile, machine.ranks_per_node);
  return one;
}

Suggestions suggest_layouts(const RunConfig& config, int ranks, const PlannedMachine& machine) {
  return Search(config, ranks, machine).find();
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
