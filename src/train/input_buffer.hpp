// A micro-batch on its way to where the model runs.
#pragma once

#include <array>
#include <optional>

#include "data/batch.hpp"
#include "gpu/device.hpp"
#include "models/model.hpp"

namespace cohort {

/// A model's view of a batch. `slots` may be empty where there is no dropout.
ModelInput as_input(const Batch& batch, std::span<const Count> slots);

/// On a CPU nothing: inputs are used where they are. On a GPU the device memory of one micro-batch, and pinned memory for its
/// way, of which there are two, so that the next batch can be written while the last is still being copied.
class InputBuffer {
 public:
  /// `classes` is the vocabulary: ids and targets are checked against it before they go where no kernel checks them.
  InputBuffer(DeviceKind device, Count classes) : device_(device), classes_(classes) {}
  InputBuffer(InputBuffer&&) noexcept = default;

  /// Of its device memory, in the account of memory.
  static constexpr const char* kLabel = "input";

  /// The input for the model, valid until the next put(). Copies are made on the compute stream, behind what is on it already.
  ModelInput put(const ModelInput& host);

 private:
  struct Staging {
    Tensor memory;  // u8, pinned
    std::optional<gpu::Event> copied;
  };
  void grow(Bytes bytes);
  void check(const ModelInput& host) const;

  DeviceKind device_;
  Count classes_;
  Tensor memory_;  // u8, on the device
  std::array<Staging, 2> staging_;
  int turn_ = 0;
};

}  // namespace cohort
