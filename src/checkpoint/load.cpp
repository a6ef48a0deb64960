#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/format.hpp"
#include "checkpoint/reader.hpp"

namespace cohort {
namespace {

constexpr std::size_t kShownDifferences = 5;

struct Target {
  std::string dataset;
  Tensor tensor;
};

std::vector<Target> values_of(const ParameterRegistry& registry) {
  std::vector<Target> targets;
  for (const auto& parameter : registry.all()) {
    COHORT_CHECK(parameter->shard.whole(), "{} is split over ranks: this checkpoint reader holds whole tensors only",
                 parameter->name);
    targets.push_back({value_dataset(parameter->name), parameter->value});
  }
  return targets;
}

std::vector<Target> states_of(const ParameterRegistry& registry, const std::vector<std::string>& slots) {
  std::vector<Target> targets;
  for (const auto& parameter : registry.all()) {
    for (const std::string& slot : slots)
      targets.push_back({state_dataset(slot, parameter->name), parameter->optimizer_state.at(slot)});
  }
  return targets;
}

std::string shape_text(const std::vector<Count>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string first_few(const char* title, const std::vector<std::string>& items) {
  if (items.empty()) return "";
  const std::size_t shown = std::min(items.size(), kShownDifferences);
  const std::string more = items.size() > shown ? fmt::format(" and {} more", items.size() - shown) : "";
  return fmt::format("; {}: {}{}", title, join({items.begin(), items.begin() + static_cast<std::ptrdiff_t>(shown)}), more);
}

/// "" if the file holds exactly these values; else what differs, for a message.
std::string differences(const Manifest& manifest, const std::vector<Target>& values) {
  std::vector<std::string> missing;
  std::vector<std::string> other;
  std::vector<std::string> extra;
  std::set<std::string> known;
  for (const Target& target : values) {
    known.insert(target.dataset);
    const ManifestEntry* entry = manifest.find(target.dataset);
    if (entry == nullptr) {
      missing.push_back(target.dataset);
    } else if (entry->shape != target.tensor.shape().vector() || entry->dtype != name_of(target.tensor.dtype())) {
      other.push_back(fmt::format("{} is {} {} in the file and {} {} in the model", target.dataset, entry->dtype,
                                  shape_text(entry->shape), name_of(target.tensor.dtype()), target.tensor.shape().str()));
    }
  }
  for (const ManifestEntry& entry : manifest.datasets) {
    if (entry.name.starts_with("/model/") && !known.contains(entry.name)) extra.push_back(entry.name);
  }
  return first_few("not in the file", missing) + first_few("only in the file", extra) +
         first_few("of another shape or type", other);
}

void check_model(const CheckpointReader& reader, std::string_view model, const std::vector<Target>& values) {
  const std::string differing = differences(reader.manifest(), values);
  if (differing.empty() && reader.state().model == model) return;
  fail(ExitCode::checkpoint,
       "{}: a checkpoint of another model: the file's is '{}', this one is '{}'{}; use the run file of the checkpoint (it is "
       "inside, as {})",
       reader.file_name(), reader.state().model, model, differing, kRunFileDataset);
}

void check_optimizer_state(const CheckpointReader& reader, const std::vector<Target>& states) {
  for (const Target& target : states) {
    const ManifestEntry* entry = reader.manifest().find(target.dataset);
    if (entry == nullptr) {
      fail(ExitCode::checkpoint,
           "{}: the optimizer state {} is not in it: training cannot be resumed from this checkpoint with this optimizer",
           reader.file_name(), target.dataset);
    }
    if (entry->shape != target.tensor.shape().vector() || entry->dtype != name_of(target.tensor.dtype())) {
      fail(ExitCode::checkpoint, "{}: {} is {} {}, but {} {} is wanted", reader.file_name(), target.dataset, entry->dtype,
           shape_text(entry->shape), name_of(target.tensor.dtype()), target.tensor.shape().str());
    }
  }
}

}  // namespace

void allocate_optimizer_state(const ParameterRegistry& registry, const std::vector<std::string>& slots) {
  for (const auto& parameter : registry.all()) {
    for (const std::string& slot : slots) {
      Tensor& tensor = parameter->optimizer_state[slot];
      if (!tensor.defined())
        tensor = Tensor::zeros(fmt::format("optimizer.{}.{}", slot, parameter->name), parameter->global_shape);
    }
  }
}

TrainingState load_checkpoint(const std::filesystem::path& folder, const ParameterRegistry& registry, std::string_view model,
                              const std::vector<std::string>& slots) {
  const CheckpointReader reader(folder);
  std::vector<Target> targets = values_of(registry);
  check_model(reader, model, targets);
  allocate_optimizer_state(registry, slots);
  const std::vector<Target> states = states_of(registry, slots);
  check_optimizer_state(reader, states);
  targets.insert(targets.end(), states.begin(), states.end());
  for (const Target& target : targets) reader.read(*reader.manifest().find(target.dataset), target.tensor);
  return reader.state();
}

TrainingState read_training_state(const std::filesystem::path& folder) { return CheckpointReader(folder).state(); }

}  // namespace cohort
