// A group of ranks and the collectives among them. One interface; the backends are sibling files: self (one rank), mpi, nccl.
//
// Contract, the same for every backend:
//  - Every collective must be called by all ranks of the group, in the same order, with the same count, type and operation.
//  - Counts are in elements, 64 bits wide; a backend splits what its library cannot take in one call.
//  - Sums of bf16 and fp16 add in fp32 and round once per addition.
//  - `avg` is the sum divided by the group's size; integers cannot be averaged.
//  - Results are identical on all ranks, bit for bit, and from run to run.
//  - An asynchronous form returns a Request; the buffers belong to the communicator until wait() returns.
//  - Errors throw cohort::Error naming the operation, the group and the rank.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/dtype.hpp"
#include "base/units.hpp"

namespace cohort {

enum class ReduceOp { sum, max, avg };

/// An operation in flight. Move-only. Destroying it before wait() is a bug in the caller: the destructor then waits and swallows errors.
class Request {
 public:
  /// What a backend implements.
  class State {
   public:
    virtual ~State() = default;
    /// True once done; also gives the library a chance to make progress.
    virtual bool test() = 0;
    virtual void wait() = 0;
  };

  Request() = default;  // done already
  explicit Request(std::unique_ptr<State> state) : state_(std::move(state)) {}
  Request(Request&&) noexcept = default;
  Request& operator=(Request&& other) noexcept;
  ~Request();

  bool test();
  void wait();

 private:
  std::unique_ptr<State> state_;
};

/// One call as the message trace sees it: what was asked for, by whom, and how long the caller was held up.
struct CommEvent {
  const char* operation;    // "all_reduce", ...
  const std::string* group; // name of the communicator
  Count elements;
  DType dtype;
  Bytes bytes;              // payload of one rank: elements times element size (all-gather and reduce-scatter: of the whole)
  bool asynchronous;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// "world", "dp", "tp", ...: for messages and traces.
  const std::string& name() const { return name_; }
  /// "self", "mpi", ...
  virtual std::string_view backend() const = 0;

  /// data[i] <- op over ranks of data[i], in place. // Collective
  Request all_reduce_async(void* data, Count elements, DType dtype, ReduceOp op);
  void all_reduce(void* data, Count elements, DType dtype, ReduceOp op) { all_reduce_async(data, elements, dtype, op).wait(); }

  /// `send` holds size() blocks of `block_elements`; rank r receives the reduced block r in `recv`. // Collective
  Request reduce_scatter_async(const void* send, void* recv, Count block_elements, DType dtype, ReduceOp op);
  void reduce_scatter(const void* send, void* recv, Count block_elements, DType dtype, ReduceOp op) {
    reduce_scatter_async(send, recv, block_elements, dtype, op).wait();
  }

  /// Each rank gives `block_elements`; all receive the size() blocks in rank order in `recv`. // Collective
  /// `send` may be the caller's own block inside `recv`.
  Request all_gather_async(const void* send, void* recv, Count block_elements, DType dtype);
  void all_gather(const void* send, void* recv, Count block_elements, DType dtype) {
    all_gather_async(send, recv, block_elements, dtype).wait();
  }

  /// // Collective
  Request broadcast_async(void* data, Count elements, DType dtype, int root);
  void broadcast(void* data, Count elements, DType dtype, int root) { broadcast_async(data, elements, dtype, root).wait(); }

  /// Point to point. Matching: same pair, same tag (0 to 32766), in order of posting. Not collective.
  Request send_async(const void* data, Count elements, DType dtype, int to, int tag = 0);
  void send(const void* data, Count elements, DType dtype, int to, int tag = 0) { send_async(data, elements, dtype, to, tag).wait(); }
  Request recv_async(void* data, Count elements, DType dtype, int from, int tag = 0);
  void recv(void* data, Count elements, DType dtype, int from, int tag = 0) { recv_async(data, elements, dtype, from, tag).wait(); }

  /// No rank leaves before all have entered. // Collective
  virtual void barrier() = 0;

  /// Ranks with the same colour form a new group, ordered by key. A negative colour takes no part and gets null. // Collective
  virtual std::unique_ptr<Communicator> split(int color, int key, std::string name) = 0;

  /// Calls `observer` at each operation from now on; an empty function ends it.
  void observe(std::function<void(const CommEvent&)> observer) { observer_ = std::move(observer); }

 protected:
  Communicator(std::string name, int rank, int size) : name_(std::move(name)), rank_(rank), size_(size) {}

  // Backends implement these; arguments have been checked and the trace told.
  virtual Request do_all_reduce(void* data, Count elements, DType dtype, ReduceOp op) = 0;
  virtual Request do_reduce_scatter(const void* send, void* recv, Count block_elements, DType dtype, ReduceOp op) = 0;
  virtual Request do_all_gather(const void* send, void* recv, Count block_elements, DType dtype) = 0;
  virtual Request do_broadcast(void* data, Count elements, DType dtype, int root) = 0;
  virtual Request do_send(const void* data, Count elements, DType dtype, int to, int tag) = 0;
  virtual Request do_recv(void* data, Count elements, DType dtype, int from, int tag) = 0;

 private:
  void note(const char* operation, Count elements, DType dtype, Bytes bytes);

  std::string name_;
  int rank_;
  int size_;
  std::function<void(const CommEvent&)> observer_;
};

// Typed shorthands for host code: the element type follows from the argument.
template <class T>
void all_reduce(Communicator& comm, std::span<T> data, ReduceOp op) {
  comm.all_reduce(data.data(), static_cast<Count>(data.size()), dtype_of<T>, op);
}
template <class T>
T all_reduce_value(Communicator& comm, T value, ReduceOp op) {
  comm.all_reduce(&value, 1, dtype_of<T>, op);
  return value;
}
template <class T>
void broadcast(Communicator& comm, std::span<T> data, int root) {
  comm.broadcast(data.data(), static_cast<Count>(data.size()), dtype_of<T>, root);
}

}  // namespace cohort
