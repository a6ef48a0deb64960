#include "train/resume.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "config/rate_scaling.hpp"
#include "config/run_file.hpp"
#include "config/schema.hpp"
#include "config/validate.hpp"
#include "train/data_record.hpp"

namespace cohort {
namespace {

constexpr std::array<std::string_view, 5> kBindingSections{"model", "lora", "optimizer", "schedule", "precision"};
constexpr std::array<std::string_view, 5> kBindingKeys{"run.seed", "data.documents", "data.stages", "train.global_batch",
                                                       "train.clip_norm"};
// Checkpointing and offload of activations change memory and time, not one bit of the result.
constexpr std::array<std::string_view, 3> kFreeKeys{"model.activation_checkpointing", "model.checkpointed_layers",
                                                    "model.activation_offload"};

template <class List>
bool contains(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool binds(const KeySpec& key) {
  const std::string name = key.full_name();
  return !contains(kFreeKeys, name) && (contains(kBindingSections, key.section) || contains(kBindingKeys, name));
}

}  // namespace

std::string keep_schedule(const TrainingState& saved, RunConfig& now) {
  const ScheduleSection before = parse_run_file(saved.run_file, "the checkpoint's run file").schedule;
  ScheduleSection& schedule = now.schedule;
  const bool follows =
      !now.origins.contains("schedule.decay_steps") && schedule.kind == before.kind && schedule.kind != "constant";
  if (!follows || before.decay_steps == schedule.decay_steps) return "";
  const Count steps = std::exchange(schedule.decay_steps, before.decay_steps);
  return fmt::format(
      "the learning rate keeps the decay that this run started with: to {:g} at step {}, not at step {} (train.steps); for "
      "another decay add --set schedule.decay_steps={} --allow-changes",
      peak_learning_rate(now) * schedule.final_fraction, schedule.decay_steps, now.train.steps, steps);
}

std::vector<std::string> changes_since(const TrainingState& saved, const RunConfig& now, const std::string& data_now) {
  const RunConfig before = parse_saved_run_file(saved.run_file, "the checkpoint's run file");
  std::vector<std::string> changes;
  for (const KeySpec& key : all_keys()) {
    if (!binds(key)) continue;
    const std::string old_value = value_as_toml(key, before);
    const std::string new_value = value_as_toml(key, now);
    if (old_value != new_value)
      changes.push_back(fmt::format("{}: {} in the checkpoint, {} now", key.full_name(), old_value, new_value));
  }
  for (std::string& change : data_changes(saved.data, data_now)) changes.push_back(std::move(change));
  return changes;
}

}  // namespace cohort
