#include "interchange/checkpoint_weights.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "checkpoint/format/format.hpp"
#include "checkpoint/load/stored_model.hpp"
#include "checkpoint/read/reader.hpp"
#include "checkpoint/store/store.hpp"
#include "checkpoint/write/save.hpp"

namespace cohort {
namespace {

std::string parameter_of(const std::string& dataset) {
  std::string name = dataset.substr(kModelGroup.size());
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

}  // namespace

CheckpointWeights::CheckpointWeights(const std::filesystem::path& path)
    : folder_(resolve_checkpoint(path)), reader_(std::make_unique<CheckpointReader>(folder_)) {
  const std::vector<ManifestTensor>& stored = reader_->manifest().tensors();
  for (std::size_t i = 0; i < stored.size(); ++i) {
    if (!stored[i].name.starts_with(kModelGroup)) continue;
    entries_.push_back(i);
    tensors_.push_back({parameter_of(stored[i].name), stored[i].shape});
  }
}

CheckpointWeights::~CheckpointWeights() = default;

const TrainingState& CheckpointWeights::state() const { return reader_->state(); }

// The exact values, where /model is stored rounded.
void CheckpointWeights::read(std::size_t index, std::vector<float>& into) const {
  const ManifestTensor& source = *source_of(reader_->manifest(), reader_->manifest().tensors()[entries_.at(index)].name);
  if (!can_be_read_as_fp32(source.dtype)) {
    fail(ExitCode::checkpoint, "{}: {} is {}, which is not a type for weights", folder_.string(), source.name,
         name_of(source.dtype));
  }
  into.resize(static_cast<std::size_t>(source.elements()));
  reader_->read(source, TensorPart(source.shape), into);
}

std::filesystem::path write_checkpoint(const std::filesystem::path& run_folder, const TensorSource& weights,
                                       const TrainingState& state) {
  const auto values = std::make_shared<std::vector<float>>();  // of one tensor at a time
  std::vector<StoredTensor> tensors;
  for (std::size_t i = 0; i < weights.tensors().size(); ++i) {
    const TensorInfo& info = weights.tensors()[i];
    const Shape& shape = info.shape;
    tensors.push_back({value_dataset(info.name), shape, DType::f32, [&weights, values, shape, i] {
                         weights.read(i, *values);
                         return Tensor::wrap(values->data(), shape);
                       }});
  }
  return save_checkpoint(run_folder, tensors, state);
}

}  // namespace cohort
