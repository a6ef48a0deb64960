// How the elements of whole tensors reach the ranks that write them. A tensor is cut into ranges of whole blocks, one for each
// rank that writes; a range is written window by window, so that no rank holds more than two windows of what is not its own.
//
// An element is copied as seldom as can be: a window that lies in one piece in the memory of the rank that writes it is written
// from there; a run of the tensor that another rank has arrives at its place in the window; only what is scattered over the
// window (tensor parallelism cuts columns) travels packed and is put in place here.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "checkpoint/write/write_plan.hpp"
#include "comm/communicator.hpp"

namespace cohort {

/// The ranks, all below `writers`, that write the ranges of a tensor: the first range, the second, and so on. At most one range
/// for each block, and each rank writes one range at most. Ranks that have elements of the tensor come first, in the order of
/// their elements, so that those of ZeRO write much of what they have themselves. Depends only on the tensor: the same on all
/// ranks.
std::vector<int> writers_of(const PlannedTensor& tensor, int writers);
/// The `round`th window of range `range` of `ranges`: a run of the tensor of this shape. Windows begin at borders of blocks,
/// follow each other, and cover the tensor.
TensorPart window_of(const Shape& shape, Count ranges, Count range, Count round);
/// How many rounds there are.
Count rounds_of(Count elements, Count ranges);
/// What the largest window of a tensor holds.
Count largest_window(Count elements);

/// The elements of one window: memory of somebody else, who keeps it, or room of its own.
class WindowElements {
 public:
  const std::byte* data() const { return data_; }
  /// Forgets the elements; keeps the room.
  void clear();
  /// From now on the elements are those of the tensor, which is held.
  void borrow(Tensor elements);
  /// Room for `bytes` bytes, the same at each call until clear().
  std::byte* room(Bytes bytes);

 private:
  const std::byte* data_ = nullptr;
  Tensor borrowed_;
  std::unique_ptr<std::byte[]> own_;
  Bytes own_bytes_ = 0;
};

/// Brings the elements of windows to the ranks that write them.
class Exchange {
 public:
  Exchange(Communicator& comm, const std::vector<WriteItem>& own) : comm_(comm), own_(own) {}

  /// Fills `into` with this rank's window of the tensor in this round, and gives others what they write. If own elements cannot
  /// be read, others get any, so that none waits, and rethrow_failure() tells. Returns the window, which may be empty.
  // Collective over: comm
  TensorPart window(const PlannedTensor& tensor, const std::vector<int>& writers, Count round, WindowElements& into);
  /// Throws what kept this rank from reading its elements, if anything did. // Local
  void rethrow_failure() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  struct Message {
    Tensor kept;  // the sender's own memory, or ...
    std::unique_ptr<std::byte[]> packed;
  };
  struct Arrival {
    TensorPart elements;
    std::unique_ptr<std::byte[]> packed;
  };

  void bring_own(const WriteItem& own, Count first, Count n);
  void send(const WriteItem& own, Count first, Count n, int writer);
  void receive(const TensorPart& part, int giver, Count first, Count n);
  std::byte* place_of(Count at);
  void scatter(const TensorPart& elements, const std::byte* packed);
  const WriteItem& own_part(const std::string& tensor, const TensorPart& part) const;
  void attempt(const std::function<void()>& read);

  Communicator& comm_;
  const std::vector<WriteItem>& own_;
  std::exception_ptr failure_;
  // Of the window that is being filled:
  Bytes width_ = 0;  // of an element
  TensorPart own_window_{Shape{0}};
  WindowElements* into_ = nullptr;
  std::vector<Message> messages_;
  std::vector<Arrival> arrivals_;
  std::vector<Request> requests_;  // last, so that they end before their memory goes
};

}  // namespace cohort
