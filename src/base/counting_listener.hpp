// Who wants to hear the step that a thread counts (base/counting.hpp), call by call: ops with their tensors and their work, what
// arenas hand out, what groups are asked for and where the step waits for it. Whoever stands in for work on such a thread tells
// it once, and each listener takes of it what it needs: how long the step takes is played from a tape (base/work_tape.hpp,
// plan/replay.hpp), a graph of the model is drawn (plan/graph). So neither can differ from what runs.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

/// What a call of an op is mostly: how fast a machine is at it.
enum class OpKind : std::uint8_t { product, attention, pointwise, optimizer };

/// The work of one call.
struct OpWork {
  std::string_view op = {};  // "linear_forward": as a machine is measured at it; of static storage
  OpKind kind = OpKind::pointwise;
  DType dtype = DType::f32;  // of what it multiplies or reads most of
  bool tf32 = false;         // a product that may round fp32 operands (ops/exec.hpp)
  // A product: C [m, n] = A [m, k] B [k, n]. Attention: m heads of all samples, n tokens, k elements of a head. Element by
  // element over a matrix: m rows of n.
  Count m = 0, n = 0, k = 0;
  double flops = 0.0;  // multiplications and additions; 0 where memory is what counts
  double bytes = 0.0;  // read and written, each operand once
};

class CountingListener {
 public:
  virtual ~CountingListener() = default;

  /// What follows is work of this unit of the model; "": of none.
  virtual void unit_begins(std::string_view /*unit*/, bool /*backward*/) {}
  /// An op (src/ops) that is not part of another.
  virtual void op(std::string_view /*name*/, std::span<const CountedTensor> /*reads*/,
                  std::span<const CountedTensor> /*writes*/) {}
  /// What a machine then does: the work of that op, or, one after the other, of those that it is made of; copies and the like.
  virtual void work(const OpWork& /*work*/) {}
  /// An arena, known by its label and the address at which it begins, handed out a tensor and has `in_use` bytes in use now.
  virtual void taken(const std::string& /*label*/, const void* /*arena*/, const CountedTensor& /*tensor*/, Bytes /*in_use*/) {}
  /// It has only so many left.
  virtual void rewound(const void* /*arena*/, Bytes /*in_use*/) {}
  /// A group was asked for an operation: CommEvent (comm/communicator.hpp) has the same. Where it reads and writes; null: not.
  struct Operation {
    std::string_view name;  // of static storage
    const std::string& group;
    const std::shared_ptr<const std::vector<int>>& members;  // the ranks of the group by their numbers in the job
    Bytes bytes;                                             // given
    const void* from;
    const void* to;
  };
  /// Gives the id that waits() will have.
  virtual std::size_t communicates(const Operation& /*operation*/) { return 0; }
  /// The step goes on when that operation is done. Nobody waits for what was sent.
  virtual void waits(std::size_t /*id*/) {}
  /// Its place in the step, by which passes of a pipeline are noted.
  virtual double now() const { return 0.0; }
};

namespace detail {
inline thread_local CountingListener* counting_listener = nullptr;
inline thread_local int noted_work_under_way = 0;
}  // namespace detail

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

/// For what is no op of a model (ops/op_note.hpp), such as copies and the updates of optimizers. Part of an op that has told its
/// work, it says nothing.
inline void note_work(const OpWork& work) {
  CountingListener* const listener = counting_listener();
  if (listener != nullptr && detail::noted_work_under_way == 0) listener->work(work);
}

/// Work that moves so many bytes and does nothing else worth its time.
inline void note_traffic(std::string_view op, DType dtype, Bytes bytes, OpKind kind = OpKind::pointwise) {
  note_work({.op = op, .kind = kind, .dtype = dtype, .bytes = static_cast<double>(bytes)});
}

}  // namespace cohort
