#include "checkpoint/load/stored_model.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/format/format.hpp"

namespace cohort {
namespace {

std::string titled(const char* title, const std::vector<std::string>& items) {
  return items.empty() ? "" : fmt::format("; {}: {}", title, first_few(items));
}

bool fits(const ManifestTensor& stored, const StateShard& shard) {
  return stored.shape == shard.part.shape() && can_be_read_as_fp32(stored.dtype);
}

/// "" if the checkpoint has exactly the model's values; else what differs, for a message.
std::string differences(const Manifest& manifest, const std::vector<StateShard>& shards,
                        const std::vector<std::uint8_t>& wanted) {
  std::vector<std::string> missing;
  std::vector<std::string> other;
  std::vector<std::string> extra;
  for (const StateShard& shard : shards) {
    if (!shard.tensor.starts_with(kModelGroup)) continue;
    const ManifestTensor* stored = source_of(manifest, shard.tensor);
    if (stored == nullptr) {
      missing.push_back(shard.tensor);
    } else if (!fits(*stored, shard)) {
      other.push_back(fmt::format("{} is {} {} in the file and {} in the model", shard.tensor, name_of(stored->dtype),
                                  stored->shape.str(), shard.part.shape().str()));
    }
  }
  for (std::size_t i = 0; i < manifest.tensors().size(); ++i) {
    const std::string& name = manifest.tensors()[i].name;
    if (name.starts_with(kModelGroup) && wanted[i] == 0) extra.push_back(name);
  }
  return titled("not in the file", missing) + titled("only in the file", extra) + titled("with a different shape or type", other);
}

void check_optimizer_state(const TensorReader& reader, const StateShard& shard) {
  const ManifestTensor* stored = reader.manifest().find(shard.tensor);
  if (stored == nullptr) {
    fail(ExitCode::checkpoint, "{}: no optimizer state {}: training cannot resume from this checkpoint with this optimizer",
         reader.file_name(0), shard.tensor);
  }
  if (!fits(*stored, shard)) {
    fail(ExitCode::checkpoint, "{}: {} is {} {}, but {} is needed", reader.file_name(0), shard.tensor, name_of(stored->dtype),
         stored->shape.str(), shard.part.shape().str());
  }
}

}  // namespace

const ManifestTensor* source_of(const Manifest& manifest, const std::string& tensor) {
  if (tensor.starts_with(kModelGroup)) {
    if (const ManifestTensor* master = manifest.find(std::string(kMasterGroup) + tensor.substr(kModelGroup.size())))
      return master;
  }
  return manifest.find(tensor);
}

void check_model(const TensorReader& reader, const TrainingState& state, std::string_view model,
                 const std::vector<StateShard>& shards, const std::vector<std::uint8_t>& wanted) {
  const std::string differing = differences(reader.manifest(), shards, wanted);
  if (!differing.empty() || state.model != model) {
    fail(ExitCode::checkpoint,
         "{}: a checkpoint of another model: '{}' in the file, '{}' in this run{}; use the run file inside the checkpoint ({})",
         reader.file_name(0), state.model, model, differing, kRunFileDataset);
  }
  for (const StateShard& shard : shards) {
    if (!shard.tensor.starts_with(kModelGroup)) check_optimizer_state(reader, shard);
  }
}

}  // namespace cohort
