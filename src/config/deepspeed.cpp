#include "config/deepspeed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/optimizer_rules.hpp"
#include "config/schema.hpp"

namespace cohort {
namespace {

using nlohmann::json;

// One value of the configuration under its full name: "fp16.enabled".
struct Entry {
  std::string name;
  json value;
  std::string text() const { return fmt::format("{} = {}", name, value.dump()); }
};

class Importer {
 public:
  Importer(const json& document, std::string source) : source_(std::move(source)) {
    const json flat = document.flatten();
    for (const auto& [pointer, value] : flat.items()) {
      std::string name = pointer.substr(1);
      std::replace(name.begin(), name.end(), '/', '.');
      entries_.push_back({name, value});
    }
  }

  DeepSpeedImport run() {
    batch();
    layout();
    optimizer();
    schedule();
    precision();
    reduction();
    zero();
    for (const Entry& entry : entries_) note_rest(entry);
    std::stable_sort(import_.keys.begin(), import_.keys.end(),
                     [](const auto& a, const auto& b) { return place_of(a.section) < place_of(b.section); });
    return std::move(import_);
  }

 private:
  static std::size_t place_of(const std::string& section) {
    const auto& sections = all_sections();
    return static_cast<std::size_t>(
        std::find_if(sections.begin(), sections.end(), [&](const auto& s) { return s.name == section; }) - sections.begin());
  }

  // Takes an entry off the list; "auto" leaves a value to whoever runs it.
  std::optional<Entry> take(const std::string& name) {
    const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.name == name; });
    if (found == entries_.end()) return std::nullopt;
    Entry entry = *found;
    entries_.erase(found);
    if (entry.value == "auto" || entry.value.is_null()) return std::nullopt;
    return entry;
  }
  std::optional<double> number(const std::string& name) {
    const auto entry = take(name);
    if (!entry) return std::nullopt;
    if (!entry->value.is_number()) fail(ExitCode::config, "{}: {} must be a number", source_, entry->text());
    last_ = entry->text();
    return entry->value.get<double>();
  }
  std::optional<std::string> word(const std::string& name) {
    const auto entry = take(name);
    if (!entry) return std::nullopt;
    if (!entry->value.is_string()) fail(ExitCode::config, "{}: {} must be a string", source_, entry->text());
    last_ = entry->text();
    return entry->value.get<std::string>();
  }
  bool flag(const std::string& name) {
    const auto entry = take(name);
    if (!entry) return false;
    if (!entry->value.is_boolean()) fail(ExitCode::config, "{}: {} must be true or false", source_, entry->text());
    last_ = entry->text();
    return entry->value.get<bool>();
  }

  void set(const char* section, const char* name, std::string value) {
    // A schedule's peak rate takes the place of the optimizer's.
    std::erase_if(import_.keys, [&](const auto& key) { return key.section == section && key.name == name; });
    import_.keys.push_back({section, name, std::move(value), last_});
  }
  void set_integer(const char* from, const char* section, const char* name) {
    const auto value = number(from);
    if (!value) return;
    if (*value != std::floor(*value)) fail(ExitCode::config, "{}: {} must be an integer", source_, last_);
    set(section, name, fmt::format("{:.0f}", *value));
  }
  void set_number(const std::string& from, const char* section, const char* name) {
    if (const auto value = number(from)) set(section, name, json(*value).dump());
  }
  void refuse(const std::string& reason) { import_.not_understood.push_back(last_ + ": " + reason); }

  void layout() {
    set_integer("pipeline.stages", "parallel", "pp");
    set_integer("tensor_parallel.autotp_size", "parallel", "tp");
  }

  void batch() {
    set_integer("train_batch_size", "train", "global_batch");
    set_integer("train_micro_batch_size_per_gpu", "train", "micro_batch");
    set_integer("gradient_accumulation_steps", "train", "accumulation");
    set_number("gradient_clipping", "train", "clip_norm");
    set_integer("steps_per_print", "log", "every");
  }

  void optimizer() {
    const auto type = word("optimizer.type");
    if (!type) return;
    std::vector<std::string> known;
    const OptimizerRules* chosen = nullptr;
    for (const OptimizerRules* rules : all_optimizer_rules()) {
      for (const std::string& name : rules->deepspeed_names) {
        known.push_back(name);
        if (name == *type) chosen = rules;
      }
    }
    if (chosen == nullptr) return refuse("of DeepSpeed's optimizers Cohort has " + join(known));
    set("optimizer", "kind", toml_string(chosen->kind));
    set_number("optimizer.params.lr", "optimizer", "learning_rate");
    for (const OwnKey& key : chosen->own_keys) set_number("optimizer.params." + key.name, "optimizer", key.name.c_str());
    set_number("optimizer.params.betas.0", "optimizer", "beta1");
    set_number("optimizer.params.betas.1", "optimizer", "beta2");
    set_number("optimizer.params.eps", "optimizer", "epsilon");
    set_number("optimizer.params.weight_decay", "optimizer", "weight_decay");
  }

  void schedule() {
    const auto type = word("scheduler.type");
    if (!type) return;
    const std::map<std::string, std::string> kinds{
        {"WarmupLR", "constant"}, {"WarmupDecayLR", "linear"}, {"WarmupCosineLR", "cosine"}};
    const auto kind = kinds.find(*type);
    if (kind == kinds.end()) return refuse("Cohort's schedules are constant, linear and cosine, each with warm-up");
    set("schedule", "kind", "\"" + kind->second + "\"");
    set_integer("scheduler.params.warmup_num_steps", "schedule", "warmup_steps");
    if (kind->second != "constant") set_integer("scheduler.params.total_num_steps", "schedule", "decay_steps");
    if (kind->second == "linear") set("schedule", "final_fraction", "0.0");
    if (kind->second == "cosine") set_number("scheduler.params.cos_min_ratio", "schedule", "final_fraction");
    if (const auto peak = number("scheduler.params.warmup_max_lr")) set("optimizer", "learning_rate", json(*peak).dump());
    const auto start = number("scheduler.params.warmup_min_lr");
    if (start && *start != 0.0) refuse("Cohort's warm-up starts at the peak divided by its steps");
    if (const auto shape = word("scheduler.params.warmup_type"); shape && *shape != "linear")
      refuse("Cohort's warm-up is linear");
  }

  void precision() {
    const bool bf16 = flag("bf16.enabled") || flag("bfloat16.enabled");
    if (bf16) set("precision", "policy", "\"bf16\"");
    if (!flag("fp16.enabled")) {
      drop("fp16.");
      return;
    }
    set("precision", "policy", "\"fp16\"");
    if (const auto scale = number("fp16.loss_scale"); scale && *scale != 0.0) refuse("Cohort's loss scale is dynamic");
    if (const auto power = number("fp16.initial_scale_power")) set("precision", "loss_scale", json(std::exp2(*power)).dump());
    set_integer("fp16.loss_scale_window", "precision", "loss_scale_interval");
    set_number("fp16.min_loss_scale", "precision", "min_loss_scale");
  }

  // The type in which gradients travel.
  void reduction() {
    const auto type = word("communication_data_type");
    if (!type || *type == "fp32") return;
    const bool of_computation = std::any_of(import_.keys.begin(), import_.keys.end(), [&](const auto& key) {
      return key.name == "policy" && key.value == "\"" + *type + "\"";
    });
    if (!of_computation) return refuse("gradients are summed in fp32 or in the type of the computation");
    set("precision", "reduction", "\"compute\"");
  }

  void zero() {
    const auto stage = number("zero_optimization.stage");
    if (!stage) return;
    if (*stage < 0 || *stage > 3 || *stage != std::floor(*stage)) {
      fail(ExitCode::config, "{}: {}: the stages of ZeRO are 0, 1, 2 and 3", source_, last_);
    }
    set("parallel", "data", *stage == 0.0 ? "\"bucketed\"" : fmt::format("\"zero{:.0f}\"", *stage));
    if (*stage == 0) return;
    set_integer("zero_optimization.mics_shard_size", "parallel", "shard_ranks");
    offload("optimizer");
    if (*stage == 3) offload("param");
  }

  // Where the state of what a rank owns lies. Parameters take the optimizer with them.
  void offload(const std::string& what) {
    const std::string prefix = "zero_optimization.offload_" + what + ".";
    const auto device = word(prefix + "device");
    if (!device || *device == "none") return;
    if (*device != "cpu" && *device != "nvme") return refuse("the devices of offloading are none, cpu and nvme");
    const bool parameters = what == "param";
    if (parameters && *device == "nvme") return refuse("parameters can be offloaded to cpu only");
    const auto path = *device == "nvme" ? word(prefix + "nvme_path") : std::nullopt;
    if (*device == "nvme" && !path) return refuse("needs an nvme_path");
    if (path) set("parallel", "offload_directory", toml_string(*path));
    set("parallel", "offload", parameters ? "\"parameters\"" : "\"optimizer\"");
    flag(prefix + "pin_memory");  // what is copied in the background always is
  }

  void drop(const std::string& prefix) {
    std::erase_if(entries_, [&](const Entry& entry) { return entry.name.starts_with(prefix); });
  }

  // What is left: a switch that is off asks for nothing.
  void note_rest(const Entry& entry) {
    if (entry.value == "auto" || entry.value.is_null() || entry.value == false || entry.value == "none") return;
    import_.not_understood.push_back(entry.text() + ": no counterpart");
  }

  std::string source_;
  std::vector<Entry> entries_;
  std::string last_;  // the entry that was taken last, for messages
  DeepSpeedImport import_;
};

}  // namespace

DeepSpeedImport import_deepspeed(std::string_view text, const std::string& source) {
  json document;
  try {
    document = json::parse(text);
  } catch (const json::parse_error& error) {
    fail(ExitCode::config, "{}: not valid JSON at byte {}: {}", source, error.byte, error.what());
  }
  if (!document.is_object()) fail(ExitCode::config, "{}: a DeepSpeed configuration is a JSON object", source);
  return Importer(document, source).run();
}

std::string to_run_file(const DeepSpeedImport& import) {
  std::string text;
  std::string section;
  for (const DeepSpeedImport::Key& key : import.keys) {
    if (key.section != section) text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", key.section);
    section = key.section;
    text += fmt::format("{:<34}  # {}\n", key.name + " = " + key.value, key.from);
  }
  if (import.not_understood.empty()) return text;
  text += fmt::format("\n# Not understood, and not part of the above:\n");
  for (const std::string& entry : import.not_understood) text += "#   " + entry + "\n";
  return text;
}

}  // namespace cohort
