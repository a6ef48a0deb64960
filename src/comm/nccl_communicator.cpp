#include "comm/nccl_communicator.hpp"

#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "comm/consensus.hpp"
#include "comm/nccl_queue.hpp"
#include "comm/nccl_version.hpp"
#include "comm/peer_ring.hpp"

namespace cohort {
namespace {

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 0), "non-blocking communicators are sound from NCCL 2.18 on");

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::f64:
      return ncclFloat64;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f16:
      return ncclFloat16;
    case DType::i32:
      return ncclInt32;
    case DType::i64:
      return ncclInt64;
    case DType::u8:
      return ncclUint8;
  }
  fail(ExitCode::internal, "element type {} has no NCCL type", static_cast<int>(dtype));
}

ncclRedOp_t nccl_op(ReduceOp op, int ranks) {
  switch (op) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::max:
      return ncclMax;
    case ReduceOp::avg:
      // Of one rank the average is the sum. NCCL 2.28 was seen to leave some fp64 elements wrong in its kernel for that average.
      return ranks == 1 ? ncclSum : ncclAvg;
  }
  fail(ExitCode::internal, "reduction {} has no NCCL operation", static_cast<int>(op));
}

/// How long a new group may take to connect, unless collectives have less time.
constexpr double kConnectSeconds = 120.0;
double connect_seconds() { return std::min(kConnectSeconds, NcclQueue::of_process().watch().timeout()); }

std::size_t count_of(Count elements) { return static_cast<std::size_t>(elements); }

class NcclRequest : public Request::State {
 public:
  explicit NcclRequest(NcclQueue::Operation operation) : operation_(std::move(operation)) {}
  bool test() override { return NcclQueue::of_process().test(*operation_); }
  void wait() override { NcclQueue::of_process().order_compute_after(*operation_); }

 private:
  NcclQueue::Operation operation_;
};

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(Communicator& host, std::unique_ptr<Communicator> owned_host, std::string name)
      : Communicator(std::move(name), host.rank(), host.size()), host_(host), owned_host_(std::move(owned_host)) {
    group_.name = this->name();
    group_.rank = rank();
    group_.size = size();
    set_members(host.members());
  }
  ~NcclCommunicator() override;
  std::string_view backend() const override { return "nccl"; }
  void gather_beside_products(Bytes block) override {
    if (size() > 1) ring_for(block);
  }

  // Collective over: host
  void connect();

 protected:
  Recording recording() const override { return Recording::backend; }
  Request do_all_reduce(void* data, Count elements, DType dtype, ReduceOp op) override;
  Request do_reduce_scatter(const void* send, void* recv, Count block_elements, DType dtype, ReduceOp op) override;
  Request do_all_gather(const void* send, void* recv, Count block_elements, DType dtype) override;
  Request do_broadcast(void* data, Count elements, DType dtype, int root) override;
  Request do_send(const void* data, Count elements, DType dtype, int to, int tag) override;
  Request do_recv(void* data, Count elements, DType dtype, int from, int tag) override;
  void do_barrier() override;
  std::unique_ptr<Communicator> do_split(int color, int key, std::string name) override;

 private:
  CollectiveFacts facts(const char* operation, Count elements, DType dtype) const {
    return {.operation = operation,
            .group = name(),
            .rank = rank(),
            .size = size(),
            .elements = elements,
            .dtype = dtype,
            .record = record()};
  }
  /// `elements` is what messages say of it; 0 elements are nothing to do, on all ranks alike.
  Request start(const char* operation, Count elements, DType dtype, const NcclQueue::Call& call);
  Request post(const char* operation, Count elements, DType dtype, int tag, NcclQueue::Call call);
  /// For messages of kRingTag, and gathers beside products; null: NCCL moves them, too. // Collective over: host
  PeerRing* ring_for(Bytes bytes);
  void begin_connecting(const ncclUniqueId& id);
  bool wait_until_connected() const;

  Communicator& host_;
  std::unique_ptr<Communicator> owned_host_;  // of a split; null if the caller owns it
  NcclGroup group_;
  std::optional<std::unique_ptr<PeerRing>> ring_;  // once something was to run beside products; null: there cannot be one
};

NcclCommunicator::~NcclCommunicator() {
  NcclQueue& queue = NcclQueue::of_process();
  // Peers may never finish what is in flight, and the process is about to end.
  if (std::uncaught_exceptions() > 0) queue.stop("this rank stopped after another error");
  if (group_.comm == nullptr) return;
  try {
    queue.leave(group_);
    ring_.reset();
    ncclCommDestroy(group_.comm);
  } catch (const std::exception&) {  // the queue has aborted the communicator; a destructor has nobody to tell
  }
}

void NcclCommunicator::connect() {
  int version = 0;
  ncclUniqueId id{};
  fail_together(host_, "starting NCCL", [&] {
    version = nccl_version();
    const ncclResult_t result = rank() == 0 ? ncclGetUniqueId(&id) : ncclSuccess;
    if (result != ncclSuccess) fail(ExitCode::launch, "{}", nccl_error_text(result, nullptr));
  });
  check_nccl_versions(host_, version);
  take_checker_of(host_);
  host_.broadcast(&id, sizeof id, DType::u8, 0);

  // A rank whose peers do not come speaks only if no rank knows a better reason.
  const std::string what = fmt::format("connecting the NCCL group '{}'", name());
  bool connected = false;
  fail_together(host_, what, [&] {
    begin_connecting(id);
    connected = wait_until_connected();
  });
  fail_together(host_, what, [&] {
    if (connected) return;
    fail(ExitCode::launch,
         "a peer exited or did not answer within {:g} s. Can the nodes reach each other, and over which network? NCCL_DEBUG=INFO "
         "shows what NCCL tries, NCCL_SOCKET_IFNAME names the interface to use",
         connect_seconds());
  });
}

void NcclCommunicator::begin_connecting(const ncclUniqueId& id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclResult_t result = ncclCommInitRankConfig(&group_.comm, size(), id, rank(), &config);
  if (group_.comm != nullptr) NcclQueue::of_process().enter(group_);
  if (result != ncclSuccess && result != ncclInProgress) fail(ExitCode::launch, "{}", nccl_error_text(result, group_.comm));
}

/// False if the peers did not come in time, or went away.
bool NcclCommunicator::wait_until_connected() const {
  const FlightRecorder::LongCall connects("connecting NCCL");  // or the job's monitor ends it first, and nobody reads what to try
  const auto start = std::chrono::steady_clock::now();
  const std::chrono::duration<double> limit(connect_seconds());
  while (true) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t result = ncclCommGetAsyncError(group_.comm, &state);
    if (result != ncclSuccess) state = result;
    if (state == ncclSuccess) return true;
    if (state == ncclRemoteError) return false;
    if (state != ncclInProgress) fail(ExitCode::launch, "{}", nccl_error_text(state, group_.comm));
    if (std::chrono::steady_clock::now() - start > limit) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

Request NcclCommunicator::start(const char* operation, Count elements, DType dtype, const NcclQueue::Call& call) {
  if (elements == 0) return {};
  return Request(std::make_unique<NcclRequest>(NcclQueue::of_process().start(group_, facts(operation, elements, dtype), call)));
}

Request NcclCommunicator::post(const char* operation, Count elements, DType dtype, int tag, NcclQueue::Call call) {
  if (tag != 0 && tag != kRingTag) {
    fail_operation(operation, fmt::format("tag {}: NCCL has no tags and matches messages in order; use tag 0", tag));
  }
  if (elements == 0) return {};
  return Request(
      std::make_unique<NcclRequest>(NcclQueue::of_process().post(group_, facts(operation, elements, dtype), std::move(call))));
}

Request NcclCommunicator::do_all_reduce(void* data, Count elements, DType dtype, ReduceOp op) {
  return start("all_reduce", elements, dtype, [&] {
    return ncclAllReduce(data, data, count_of(elements), nccl_type(dtype), nccl_op(op, size()), group_.comm,
                         gpu::communication_stream());
  });
}

Request NcclCommunicator::do_reduce_scatter(const void* send, void* recv, Count block_elements, DType dtype, ReduceOp op) {
  return start("reduce_scatter", block_elements * size(), dtype, [&] {
    return ncclReduceScatter(send, recv, count_of(block_elements), nccl_type(dtype), nccl_op(op, size()), group_.comm,
                             gpu::communication_stream());
  });
}

Request NcclCommunicator::do_all_gather(const void* send, void* recv, Count block_elements, DType dtype) {
  const Bytes block = block_elements * size_of(dtype);
  PeerRing* const ring = ring_ && block > 0 ? ring_for(block) : nullptr;
  return start("all_gather", block_elements * size(), dtype, [&] {
    if (ring != nullptr) {
      ring->all_gather(send, recv, block);
      return ncclSuccess;
    }
    return ncclAllGather(send, recv, count_of(block_elements), nccl_type(dtype), group_.comm, gpu::communication_stream());
  });
}

Request NcclCommunicator::do_broadcast(void* data, Count elements, DType dtype, int root) {
  return start("broadcast", elements, dtype, [&] {
    return ncclBroadcast(data, data, count_of(elements), nccl_type(dtype), root, group_.comm, gpu::communication_stream());
  });
}

PeerRing* NcclCommunicator::ring_for(Bytes bytes) {
  if (ring_ && (*ring_ == nullptr || bytes <= (*ring_)->room())) return ring_->get();
  NcclQueue::of_process().flush();  // a neighbour may wait on its device for what was posted here
  if (!ring_) ring_ = PeerRing::make(host_);
  group_.ring = ring_->get();
  if (group_.ring != nullptr) group_.ring->reserve(bytes);
  return group_.ring;
}

Request NcclCommunicator::do_send(const void* data, Count elements, DType dtype, int to, int tag) {
  const Bytes bytes = elements * size_of(dtype);
  PeerRing* const ring = tag == kRingTag && bytes > 0 ? ring_for(bytes) : nullptr;
  return post("send", elements, dtype, tag, [=, this] {
    if (ring == nullptr)
      return ncclSend(data, count_of(elements), nccl_type(dtype), to, group_.comm, gpu::communication_stream());
    ring->send(data, bytes);
    return ncclSuccess;
  });
}

Request NcclCommunicator::do_recv(void* data, Count elements, DType dtype, int from, int tag) {
  const Bytes bytes = elements * size_of(dtype);
  PeerRing* const ring = tag == kRingTag && bytes > 0 ? ring_for(bytes) : nullptr;
  return post("recv", elements, dtype, tag, [=, this] {
    if (ring == nullptr)
      return ncclRecv(data, count_of(elements), nccl_type(dtype), from, group_.comm, gpu::communication_stream());
    ring->receive(data, bytes);
    return ncclSuccess;
  });
}

void NcclCommunicator::do_barrier() {
  NcclQueue::of_process().flush();  // a peer may wait for a message before it comes to the barrier
  host_.barrier();
}

std::unique_ptr<Communicator> NcclCommunicator::do_split(int color, int key, std::string name) {
  std::unique_ptr<Communicator> host = host_.split(color, key, name);
  if (!host) return nullptr;
  Communicator& of_part = *host;
  auto part = std::make_unique<NcclCommunicator>(of_part, std::move(host), std::move(name));
  part->connect();
  return part;
}

}  // namespace

int nccl_version() {
  int version = 0;
  const ncclResult_t result = ncclGetVersion(&version);
  if (result != ncclSuccess) fail(ExitCode::launch, "{}", nccl_error_text(result, nullptr));
  return version;
}

std::unique_ptr<Communicator> make_nccl_communicator(Communicator& host, std::string name) {
  auto communicator = std::make_unique<NcclCommunicator>(host, nullptr, std::move(name));
  communicator->connect();
  return communicator;
}

void check_nccl_progress() { NcclQueue::of_process().check(); }

std::optional<double> take_stalled_seconds() {
  NcclQueue& queue = NcclQueue::of_process();
  return queue.used() ? std::optional(queue.take_stalled()) : std::nullopt;
}

void forget_stalled_seconds() { NcclQueue::of_process().forget_stalled(); }

void set_collective_timeout(double seconds) { NcclQueue::of_process().watch().set_timeout(seconds); }

}  // namespace cohort
