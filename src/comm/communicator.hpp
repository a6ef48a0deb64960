// A group of ranks and the collectives among them. One interface; the backends are sibling files: self (one rank), mpi, nccl,
// staged (device data by way of mpi) and counting, which sends nothing.
//
// Contract, the same for every backend:
//  - Every collective must be called by all ranks of the group, in the same order, with the same count, type and operation.
//  - Counts are in elements, 64 bits wide; a backend splits what its library cannot take in one call.
//  - Sums of bf16 and fp16 add in fp32 and round once per addition.
//  - `avg` is the sum divided by the group's size; integers cannot be averaged. (NCCL: see its header for the rounding.)
//  - Results are identical on all ranks, bit for bit, and from run to run.
//  - An asynchronous form returns a Request; the buffers belong to the communicator until wait() returns.
//  - Buffers lie in the memory that the backend is for: of the host for self and mpi, of the device for nccl (and self on one).
//    There an operation starts after what is on gpu::compute_stream() when it is called, and wait() and the blocking forms order
//    the compute stream after it: kernels that come later see the result, the host does not wait and must not look. test() asks
//    the device: after true the host may look too. barrier() holds the hosts, and says nothing of the devices.
//  - Errors throw cohort::Error naming the operation, the group and the rank.
//  - Every operation is written into the flight recorder of the process, with the place that called it (`site`, which callers
//    leave to the compiler; a wrapper passes on that of its own caller).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.hpp"
#include "base/units.hpp"
#include "observe/flight_recorder.hpp"

namespace cohort {

enum class ReduceOp { sum, max, avg };

/// The largest tag that every MPI must offer (MPI 4.0, section 9.1.2: MPI_TAG_UB is at least 32767), less one kept in hand.
inline constexpr int kMaxTag = 32766;

/// Of messages around a ring (parallel/ring_turn.hpp), from each rank to the next: all ranks post a send and then a receive of
/// the same length, in the same order, and no other messages of that pair are under way. NCCL's backend moves them without its
/// kernels where it can (comm/peer_ring.hpp); the first message, and one longer than all before it, then waits for the device.
inline constexpr int kRingTag = 1;

/// An operation in flight. Move-only. Destroying it (or assigning over it) before wait() is a bug in the caller: the destructor
/// then waits and swallows errors. While an exception unwinds the stack it waits two seconds at most, since the peers may never
/// come: the rank must reach main, which ends the job.
class Request {
 public:
  /// What a backend implements.
  class State {
   public:
    virtual ~State() = default;
    /// True once done, and the result is then in its buffer; also gives the library a chance to make progress.
    virtual bool test() = 0;
    /// Called at most once, and not after test() returned true.
    virtual void wait() = 0;
  };

  Request() = default;  // done already
  /// `record`: of the flight recorder, finished with the request; none if the backend does it.
  explicit Request(std::unique_ptr<State> state, FlightRecorder::Id record = FlightRecorder::kNone)
      : state_(std::move(state)), record_(record) {}
  Request(Request&&) noexcept = default;
  Request& operator=(Request&& other) noexcept;
  ~Request();

  /// True once done. After true, or after an error was thrown, the request is empty: further calls return at once.
  bool test();
  void wait();

 private:
  friend class Communicator;  // adds the record to what a backend made
  void finish() noexcept;

  std::unique_ptr<State> state_;
  FlightRecorder::Id record_ = FlightRecorder::kNone;
};

/// One call as the message trace sees it: what was asked for, and of whom.
struct CommEvent {
  const char* operation;     // "all_reduce", "reduce_scatter", "all_gather", "broadcast", "send", "recv", "barrier"
  const std::string* group;  // name of the communicator; valid during the call of the observer
  Count elements;            // of the argument (all-gather and reduce-scatter: of the whole, size() blocks)
  DType dtype;               // u8 for a barrier
  Bytes bytes;               // payload of one rank: elements times element size
  int ranks;                 // of the group
  bool asynchronous;         // the caller asked for the asynchronous form
};

class Communicator {
 public:
  using Site = std::source_location;

  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// "world", "dp", "tp", ...: for messages and traces.
  const std::string& name() const { return name_; }
  /// The ranks of the group by their numbers in the job, in the order of the group; null if it does not say.
  const std::shared_ptr<const std::vector<int>>& members() const { return members_; }
  /// "self", "mpi", "nccl", "staged", "counting".
  virtual std::string_view backend() const = 0;

  /// data[i] <- op over ranks of data[i], in place. // Collective
  Request all_reduce_async(void* data, Count elements, DType dtype, ReduceOp op, Site site = Site::current());
  void all_reduce(void* data, Count elements, DType dtype, ReduceOp op, Site site = Site::current());

  /// `send` holds size() blocks of `block_elements`; rank r receives the reduced block r in `recv`, which may be the rank's own
  /// block of `send` (do not read the other blocks then: they may have changed); else the two do not overlap. // Collective
  Request reduce_scatter_async(const void* send, void* recv, Count block_elements, DType dtype, ReduceOp op,
                               Site site = Site::current());
  void reduce_scatter(const void* send, void* recv, Count block_elements, DType dtype, ReduceOp op, Site site = Site::current());

  /// Each rank gives `block_elements`; all receive the size() blocks in rank order in `recv`. `send` may be the caller's own
  /// block inside `recv`; else the two do not overlap. // Collective
  Request all_gather_async(const void* send, void* recv, Count block_elements, DType dtype, Site site = Site::current());
  void all_gather(const void* send, void* recv, Count block_elements, DType dtype, Site site = Site::current());

  /// data on all ranks <- data of `root`. // Collective
  Request broadcast_async(void* data, Count elements, DType dtype, int root, Site site = Site::current());
  void broadcast(void* data, Count elements, DType dtype, int root, Site site = Site::current());

  /// Point to point. Matching: same pair, same tag (0 to kMaxTag; only 0 and kRingTag on NCCL), in order of posting; both sides
  /// name the same count and type, also when it is 0. A blocking send may wait for its receive. A rank does not send to itself.
  /// Not collective. Messages that depend on each other (a rank receives from one side and sends to the other) are all posted
  /// before the first is tested or waited for.
  Request send_async(const void* data, Count elements, DType dtype, int to, int tag = 0, Site site = Site::current());
  void send(const void* data, Count elements, DType dtype, int to, int tag = 0, Site site = Site::current());
  Request recv_async(void* data, Count elements, DType dtype, int from, int tag = 0, Site site = Site::current());
  void recv(void* data, Count elements, DType dtype, int from, int tag = 0, Site site = Site::current());

  /// No rank leaves before all have entered. // Collective
  void barrier(Site site = Site::current());

  /// Ranks with the same colour form a new group, ordered by key, then by rank here. A negative colour takes no part and gets
  /// null. Who observes this group observes the new one as well. // Collective
  std::unique_ptr<Communicator> split(int color, int key, std::string name, Site site = Site::current());
  /// The same where every rank knows the colour of each rank here, and ranks stay in order. Who may run in a thread that counts
  /// divides groups so. // Collective
  using ColorOf = std::function<int(int rank)>;
  std::unique_ptr<Communicator> split_by(const ColorOf& color_of, std::string name, Site site = Site::current());

  /// From now on, who waits in an operation of this group sleeps most of the time instead of asking all the time: for a thread in
  /// the background, which must not take a core from the training. Other backends than MPI wait as ever.
  virtual void be_patient() {}

  /// From now on, blocks of up to `block` bytes are gathered beside matrix products: GPUs of one node that reach each other's
  /// memory copy them with their copy engines, which take no multiprocessor (comm/peer_ring.hpp) and 2 MiB or a block of memory
  /// more. Other backends gather as ever. Throws SharedError(memory). // Collective
  virtual void gather_beside_products(Bytes /*block*/) {}

  /// From now on all ranks compare what they are about to do before each collective of this group, and of those that are made of
  /// it later: operation, root, count, type. Where they differ, all throw Error(internal) with what each calls, and where,
  /// instead of waiting forever. It costs a small all-gather and a wait each time: for looking for mistakes. // Collective
  void check_collectives();
  bool checks_collectives() const { return checker_ != nullptr; }

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
  virtual void do_barrier() = 0;
  virtual std::unique_ptr<Communicator> do_split(int color, int key, std::string name) = 0;
  virtual std::unique_ptr<Communicator> do_split_by(const ColorOf& color_of, std::string name) {
    return do_split(color_of(rank_), rank_, std::move(name));
  }

  /// Who finishes the records of operations: the request that the caller waits for; the backend, whose operations continue after
  /// the wait, and which takes the record of the operation that it starts from record(); or nobody, since the group that works
  /// for this one writes records of its own.
  enum class Recording { request, backend, none };
  virtual Recording recording() const { return Recording::request; }
  FlightRecorder::Id record() const { return record_; }
  /// Collectives are checked if those of `host` are, which has the same ranks. // Collective over: host
  void take_checker_of(Communicator& host);
  void set_members(std::shared_ptr<const std::vector<int>> members) { members_ = std::move(members); }

  /// Throws Error(internal): "all_reduce on group 'dp', rank 1 of 4: <message>".
  [[noreturn]] void fail_operation(const char* operation, const std::string& message) const;

 private:
  // What the two forms of each operation share: check, tell the observer, start.
  enum class Form { blocking, asynchronous };
  Request start_all_reduce(Form form, void* data, Count elements, DType dtype, ReduceOp op, const Site& site);
  Request start_reduce_scatter(Form form, const void* send, void* recv, Count block_elements, DType dtype, ReduceOp op,
                               const Site& site);
  Request start_all_gather(Form form, const void* send, void* recv, Count block_elements, DType dtype, const Site& site);
  Request start_broadcast(Form form, void* data, Count elements, DType dtype, int root, const Site& site);
  Request start_send(Form form, const void* data, Count elements, DType dtype, int to, int tag, const Site& site);
  Request start_recv(Form form, void* data, Count elements, DType dtype, int from, int tag, const Site& site);

  // What the two forms of splitting share; `divide` gives the part of any group of these ranks. // Collective
  using Divide = std::function<std::unique_ptr<Communicator>(Communicator& group, std::string name)>;
  std::unique_ptr<Communicator> divided(const Divide& divide, std::string name, const Site& site);

  void check_buffer(const char* operation, const void* data, Count elements) const;
  void check_average(const char* operation, DType dtype, ReduceOp op) const;
  void check_peer(const char* operation, int peer, int tag) const;
  /// An operation that begins: peer is -1 for collectives.
  void note(const char* operation, Form form, Count elements, DType dtype, int peer, const Site& site);
  /// Nothing unless collectives are checked. `root` is -1 where there is none. // Collective
  void compare(const char* operation, Count elements, DType dtype, std::optional<ReduceOp> op, int root, const Site& site);
  /// What the backend made of it, which is then known to the recorder.
  Request recorded(Request request) const;

  std::string name_;
  int rank_;
  int size_;
  std::shared_ptr<const std::vector<int>> members_;
  std::uint64_t collectives_ = 0;                      // begun so far
  FlightRecorder::Id record_ = FlightRecorder::kNone;  // of the operation that is being started
  std::function<void(const CommEvent&)> observer_;
  std::unique_ptr<Communicator> checker_;  // the same ranks, in host memory; null: collectives are not checked
};

// Typed shorthands for host code: the element type follows from the argument.
template <class T>
void all_reduce(Communicator& comm, std::span<T> data, ReduceOp op, std::source_location site = std::source_location::current()) {
  comm.all_reduce(data.data(), static_cast<Count>(data.size()), dtype_of<T>, op, site);
}
template <class T>
T all_reduce_value(Communicator& comm, T value, ReduceOp op, std::source_location site = std::source_location::current()) {
  comm.all_reduce(&value, 1, dtype_of<T>, op, site);
  return value;
}
template <class T>
void broadcast(Communicator& comm, std::span<T> data, int root, std::source_location site = std::source_location::current()) {
  comm.broadcast(data.data(), static_cast<Count>(data.size()), dtype_of<T>, root, site);
}

}  // namespace cohort
