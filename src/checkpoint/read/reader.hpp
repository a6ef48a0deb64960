// One stored checkpoint, opened for reading on one process: its tensors and its training state.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/format/training_state.hpp"
#include "checkpoint/read/tensor_reader.hpp"

namespace cohort {

class CheckpointReader : public TensorReader {
 public:
  /// Opens the checkpoint in `folder` and reads its training state; tensors stay on disk. Errors (checkpoint): see
  /// read_manifest(); model.h5 missing, of another size than the manifest says, not HDF5, of another version, without one of the
  /// attributes.
  explicit CheckpointReader(const std::filesystem::path& folder);

  const TrainingState& state() const { return state_; }
  /// Of model.h5, for messages.
  std::string model_file() const { return file_name(0); }

  /// Throws Error(checkpoint) with the first that find_damage() of verify.hpp finds in files and tensors.
  void verify() const;

 private:
  void read_state();
  /// A text dataset of model.h5, its checksum compared.
  std::string read_text(const std::string& name) const;

  TrainingState state_;
};

/// Only the training state: the run file and model of a checkpoint before there is a registry.
TrainingState read_training_state(const std::filesystem::path& folder);

}  // namespace cohort
