// Who wants to see the step that a thread counts (base/counting.hpp), not only what it comes to: ops with their tensors, what
// arenas hand out, what groups are asked for, by unit of the model and in order. A graph of the model is drawn from it
// (plan/graph), so that it cannot differ from what runs.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/dtype.hpp"
#include "base/shape.hpp"

namespace cohort {

/// A tensor of a counting thread: its address is its own as long as it lives, and may belong to no memory.
struct CountedTensor {
  const void* address = nullptr;
  Shape shape;
  DType dtype = DType::f32;

  Bytes bytes() const { return shape.elements() * size_of(dtype); }
};

class CountingListener {
 public:
  virtual ~CountingListener() = default;

  /// What follows is work of this unit of the model; "": of none.
  virtual void unit_begins(std::string_view /*unit*/, bool /*backward*/) {}
  /// An op (src/ops) that is not part of another.
  virtual void op(const char* /*name*/, std::span<const CountedTensor> /*reads*/, std::span<const CountedTensor> /*writes*/) {}
  /// An arena, known by its label and the address at which it begins, handed out a tensor and has `in_use` bytes in use now.
  virtual void taken(const std::string& /*label*/, const void* /*arena*/, const CountedTensor& /*tensor*/, Bytes /*in_use*/) {}
  /// It has only so many left.
  virtual void rewound(const void* /*arena*/, Bytes /*in_use*/) {}
  /// A group was asked for an operation: CommEvent (comm/communicator.hpp) has the same. Where it reads and writes; null: not.
  struct Operation {
    const char* name;
    const std::string& group;
    int ranks;
    Bytes bytes;  // given
    const void* from;
    const void* to;
  };
  virtual void communicates(const Operation& /*operation*/) {}
};

namespace detail {
inline thread_local CountingListener* counting_listener = nullptr;
}

/// Of this thread; null if nobody listens.
inline CountingListener* counting_listener() { return detail::counting_listener; }

/// While one lives, `listener` listens to its thread.
class ListeningScope {
 public:
  explicit ListeningScope(CountingListener& listener) { detail::counting_listener = &listener; }
  ~ListeningScope() { detail::counting_listener = nullptr; }
  ListeningScope(const ListeningScope&) = delete;
  ListeningScope& operator=(const ListeningScope&) = delete;
};

/// For models, before each unit's forward and backward and at the end of a pass.
inline void note_unit(std::string_view unit, bool backward) {
  if (CountingListener* const listener = counting_listener()) listener->unit_begins(unit, backward);
}

}  // namespace cohort
