// Checkpoints as a source of weights, and weights as a new checkpoint: all that interchange knows of the checkpoint format.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/format/training_state.hpp"
#include "interchange/tensor_source.hpp"

namespace cohort {

class CheckpointReader;

/// The weights of a checkpoint under the names of the model's parameters, without optimizer state.
class CheckpointWeights : public TensorSource {
 public:
  /// `path` is a checkpoint or a run. Errors as of resolve_checkpoint() and CheckpointReader.
  explicit CheckpointWeights(const std::filesystem::path& path);
  ~CheckpointWeights() override;

  const std::filesystem::path& folder() const { return folder_; }
  const TrainingState& state() const;
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  /// Checks the checksum, too.
  void read(std::size_t index, std::vector<float>& into) const override;

 private:
  std::filesystem::path folder_;
  std::unique_ptr<CheckpointReader> reader_;
  std::vector<std::size_t> entries_;  // of the manifest, for each tensor
  std::vector<TensorInfo> tensors_;
};

/// Writes RUN/checkpoints/step_N with these weights and nothing else, and returns that folder: see save_checkpoint().
std::filesystem::path write_checkpoint(const std::filesystem::path& run_folder, const TensorSource& weights,
                                       const TrainingState& state);

}  // namespace cohort
