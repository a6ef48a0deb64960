#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/format.hpp"
#include "checkpoint/stored_tensor.hpp"

namespace cohort {
namespace {

constexpr std::size_t kShownDifferences = 5;

std::string shape_text(const std::vector<Count>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string first_few(const char* title, const std::vector<std::string>& items) {
  if (items.empty()) return "";
  const std::size_t shown = std::min(items.size(), kShownDifferences);
  const std::string more = items.size() > shown ? fmt::format(" and {} more", items.size() - shown) : "";
  return fmt::format("; {}: {}{}", title, join({items.begin(), items.begin() + static_cast<std::ptrdiff_t>(shown)}), more);
}

/// "" if the file holds exactly these values; else what differs, for a message.
std::string differences(const Manifest& manifest, const std::vector<StoredTensor>& values) {
  std::vector<std::string> missing;
  std::vector<std::string> other;
  std::vector<std::string> extra;
  std::set<std::string> known;
  for (const StoredTensor& target : values) {
    known.insert(target.dataset);
    const ManifestEntry* entry = manifest.find(target.dataset);
    if (entry == nullptr) {
      missing.push_back(target.dataset);
    } else if (entry->shape != target.shape.vector() || entry->dtype != name_of(target.dtype)) {
      other.push_back(fmt::format("{} is {} {} in the file and {} {} in the model", target.dataset, entry->dtype,
                                  shape_text(entry->shape), name_of(target.dtype), target.shape.str()));
    }
  }
  for (const ManifestEntry& entry : manifest.datasets) {
    if (entry.name.starts_with(kModelGroup) && !known.contains(entry.name)) extra.push_back(entry.name);
  }
  return first_few("not in the file", missing) + first_few("only in the file", extra) +
         first_few("of another shape or type", other);
}

void check_optimizer_state(const CheckpointReader& reader, const StoredTensor& state) {
  const ManifestEntry* entry = reader.manifest().find(state.dataset);
  if (entry == nullptr) {
    fail(ExitCode::checkpoint,
         "{}: the optimizer state {} is not in it: training cannot be resumed from this checkpoint with this optimizer",
         reader.file_name(), state.dataset);
  }
  if (entry->shape != state.shape.vector() || entry->dtype != name_of(state.dtype)) {
    fail(ExitCode::checkpoint, "{}: {} is {} {}, but {} {} is wanted", reader.file_name(), state.dataset, entry->dtype,
         shape_text(entry->shape), name_of(state.dtype), state.shape.str());
  }
}

}  // namespace

void check_stored(const CheckpointReader& reader, std::string_view model, const std::vector<StoredTensor>& tensors) {
  std::vector<StoredTensor> values;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.dataset.starts_with(kModelGroup)) values.push_back(tensor);
  }
  const std::string differing = differences(reader.manifest(), values);
  if (!differing.empty() || reader.state().model != model) {
    fail(ExitCode::checkpoint,
         "{}: a checkpoint of another model: the file's is '{}', this one is '{}'{}; use the run file of the checkpoint (it is "
         "inside, as {})",
         reader.file_name(), reader.state().model, model, differing, kRunFileDataset);
  }
  for (const StoredTensor& tensor : tensors) {
    if (!tensor.dataset.starts_with(kModelGroup)) check_optimizer_state(reader, tensor);
  }
}

TrainingState read_training_state(const std::filesystem::path& folder) { return CheckpointReader(folder).state(); }

}  // namespace cohort
