// What a step asks of a machine, call by call: the work of its ops and its collectives, in the order in which the step's own code
// asks for them. Written by what stands in for kernels and groups on a thread that counts (counting.hpp); read by who predicts
// how long the step takes (plan/replay.hpp).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/dtype.hpp"
#include "base/units.hpp"

namespace cohort {

/// What a call of an op is mostly: how fast a machine is at it.
enum class OpKind : std::uint8_t { product, attention, pointwise, optimizer };

/// One call of an op.
struct OpWork {
  std::string_view op;  // "linear_forward": its name under ops/, of static storage
  OpKind kind = OpKind::pointwise;
  DType dtype = DType::f32;  // of what it multiplies or reads most of
  bool tf32 = false;         // a product that may round fp32 operands (ops/exec.hpp)
  // A product: C [m, n] = A [m, k] B [k, n]. Attention: m heads of all samples, n tokens, k elements of a head. Else m rows of n.
  Count m = 0, n = 0, k = 0;
  double flops = 0.0;  // multiplications and additions; 0 where memory is what counts
  double bytes = 0.0;  // read and written, each operand once
};

/// A collective, or one end of a message, that begins.
struct CollectiveStart {
  std::string_view operation;  // "all_reduce", ... as CommEvent has them
  std::string group;
  std::shared_ptr<const std::vector<int>> members;  // the ranks of the group by their numbers in the job
  Bytes bytes = 0;                                  // as CommEvent has them
  std::size_t id = 0;                               // of its wait
};

/// The step goes on when that collective is done.
struct CollectiveWait {
  std::size_t id = 0;
};

using WorkEntry = std::variant<OpWork, CollectiveStart, CollectiveWait>;

/// Entries in the order of the calls.
class WorkTape {
 public:
  void add(const OpWork& work) { entries_.emplace_back(work); }
  /// Gives the id to wait for.
  std::size_t start(std::string_view operation, const std::string& group, std::shared_ptr<const std::vector<int>> members,
                    Bytes bytes) {
    entries_.emplace_back(CollectiveStart{operation, group, std::move(members), bytes, next_id_});
    return next_id_++;
  }
  void wait(std::size_t id) { entries_.emplace_back(CollectiveWait{id}); }

  const std::vector<WorkEntry>& entries() const { return entries_; }
  void clear() { entries_.clear(); }

  /// The one that this thread writes; null if none is.
  static WorkTape* of_thread() { return of_thread_; }

 private:
  friend class TapeScope;
  inline static thread_local WorkTape* of_thread_ = nullptr;

  std::vector<WorkEntry> entries_;
  std::size_t next_id_ = 0;
};

/// While one lives, its thread writes `tape`.
class TapeScope {
 public:
  explicit TapeScope(WorkTape& tape) { WorkTape::of_thread_ = &tape; }
  ~TapeScope() { WorkTape::of_thread_ = nullptr; }
  TapeScope(const TapeScope&) = delete;
  TapeScope& operator=(const TapeScope&) = delete;
};

/// Notes an op that moves so many bytes and does nothing else worth its time, where a tape is written.
inline void note_traffic(std::string_view op, DType dtype, Bytes bytes) {
  if (WorkTape* const tape = WorkTape::of_thread())
    tape->add({.op = op, .dtype = dtype, .m = 1, .n = bytes / size_of(dtype), .bytes = static_cast<double>(bytes)});
}

}  // namespace cohort
