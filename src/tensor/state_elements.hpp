// A run of fp32 elements of a model's state, wherever they lie: in memory of the host or a device, or in a scratch file to which
// an optimizer's state was offloaded. Checkpoints save and load through it, a run at a time. Copies share the elements.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "base/scratch_file.hpp"
#include "tensor/tensor.hpp"

namespace cohort {

class StateElements {
 public:
  StateElements() = default;  // none
  /// `memory` is [n] fp32.
  StateElements(Tensor memory) : memory_(std::move(memory)) {}  // NOLINT: a tensor is one kind of them
  /// `elements` from byte `offset` of the file on.
  StateElements(std::shared_ptr<ScratchFile> file, Bytes offset, Count elements)
      : file_(std::move(file)), offset_(offset), elements_(elements) {}

  Count elements() const { return file_ ? elements_ : memory_.elements(); }
  /// Elements [begin, end).
  StateElements slice(Count begin, Count end) const;
  /// [n] on the host: the elements themselves if they lie there, else a copy. Throws Error(io) if the file cannot be read.
  Tensor to_host() const;
  /// Copies the elements to `host`, [n] fp32 in host memory. Throws Error(io) if the file cannot be read.
  void copy_to(const Tensor& host) const;
  /// Overwrites the elements by those of `other`, [n] fp32. Throws Error(io) if the file cannot be written.
  void copy_from(const Tensor& other) const;
  /// Overwrites the elements by what `fill` writes into host memory for them: the elements themselves if they lie there. Throws
  /// Error(io) like copy_from.
  void overwrite(const std::function<void(std::span<float>)>& fill) const;

 private:
  Tensor memory_;
  std::shared_ptr<ScratchFile> file_;  // null: they lie in memory_
  Bytes offset_ = 0;
  Count elements_ = 0;
};

}  // namespace cohort
