// One stored checkpoint, opened for reading: what load, verify and show have in common.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/manifest.hpp"
#include "checkpoint/training_state.hpp"
#include "hdf5/hdf5.hpp"
#include "tensor/tensor.hpp"

namespace cohort {

class CheckpointReader {
 public:
  /// Opens the checkpoint in `folder` and reads its training state; tensors stay on disk. Errors (checkpoint): see
  /// read_manifest(); model.h5 missing, of another size than the manifest says, not HDF5, of another version, without one of the
  /// attributes.
  explicit CheckpointReader(const std::filesystem::path& folder);

  const Manifest& manifest() const { return manifest_; }
  const TrainingState& state() const { return state_; }
  /// Of model.h5, for messages.
  const std::string& file_name() const { return file_name_; }

  /// The names below `group` ("/optim") that are groups or datasets there, sorted; none if there is no such group.
  std::vector<std::string> children(const std::string& group) const;

  /// Reads a dataset of elements into `into`, whose shape and dtype must be the entry's. Error (checkpoint) naming file and
  /// dataset if the stored shape or type differ from the manifest or the checksum does not match; `into` then holds the damaged
  /// elements.
  void read(const ManifestEntry& entry, const Tensor& into) const;
  /// The same into memory of its own, which needs no running Kokkos.
  struct Loaded {
    std::vector<std::byte> memory;
    Tensor tensor;  // a view of it
  };
  Loaded read(const ManifestEntry& entry) const;

  /// Reads everything and checks every checksum.
  void verify() const;

 private:
  void read_state();
  void check_crc(const ManifestEntry& entry, std::uint32_t crc) const;

  std::string file_name_;
  Manifest manifest_;
  hdf5::File file_;
  TrainingState state_;
};

}  // namespace cohort
