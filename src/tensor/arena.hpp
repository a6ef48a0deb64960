// Memory for activations: allocated once, handed out from the front, given back by rewinding to a mark. A training step thus
// allocates nothing from the system, and the memory of a run stays flat.
#pragma once

#include <vector>

#include "tensor/tensor.hpp"

namespace cohort {

class Arena {
 public:
  explicit Arena(std::string label, DeviceKind device = DeviceKind::cpu) : label_(std::move(label)), device_(device) {}

  /// Makes the first chunk at least this large, so that a step whose need is known never grows the arena. Call it first.
  void reserve(Bytes bytes);
  DeviceKind device() const { return device_; }

  /// Uninitialised memory, aligned to 256 bytes on a GPU and 64 on the host, valid until the arena is rewound past it. Grows by
  /// whole chunks; chunks are kept.
  Tensor take(const Shape& shape, DType dtype = DType::f32);

  struct Mark {
    std::size_t chunk = 0;
    Bytes used = 0;
  };
  Mark mark() const { return position_; }
  /// Gives back all that was taken since the mark.
  void rewind(Mark mark);

  /// All that is in use, as bytes: a tensor of each chunk. Of one that was left for the next, with the end that stayed unused.
  std::vector<Tensor> in_use() const;

  /// Largest number of bytes that were in use at once.
  Bytes peak_bytes() const { return peak_; }

  /// Rewinds at the end of a scope.
  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
    ~Scope() { arena_.rewind(mark_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    Mark mark_;
  };

 private:
  void add_chunk(Bytes bytes);

  std::string label_;
  DeviceKind device_;
  std::vector<Tensor> chunks_;  // u8 tensors
  Mark position_;
  Bytes peak_ = 0;
};

}  // namespace cohort
