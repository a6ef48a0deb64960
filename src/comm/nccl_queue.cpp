#include "comm/nccl_queue.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "comm/peer_ring.hpp"

namespace cohort {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kCheckEvery = std::chrono::milliseconds(1);
// NCCL needs some tens of microseconds to launch a kernel on its own thread, and milliseconds to connect: spin in the first,
// sleep in the second.
constexpr auto kSpin = std::chrono::microseconds(500);
constexpr auto kPause = std::chrono::microseconds(100);
constexpr auto kAbortLimit = std::chrono::seconds(10);

/// Aborts the communicators side by side. Each frees device memory, which waits for all kernels on the device, those of the
/// others too: one after another, the first would wait for a kernel that only the abort of the second ends.
void abort_together(const std::vector<ncclComm_t>& comms) {
  const auto left = std::make_shared<std::atomic<std::size_t>>(comms.size());
  for (const ncclComm_t comm : comms) {
    std::thread([comm, left, device = gpu::facts().index] {
      cudaSetDevice(device);  // a new thread would make itself at home on device 0
      ncclCommAbort(comm);    // whatever it returns: the process has its error already
      --*left;
    }).detach();
  }
  const auto deadline = Clock::now() + kAbortLimit;
  while (*left > 0 && Clock::now() < deadline) std::this_thread::sleep_for(kPause);
}

void begin_traced(NcclOperation& operation) {
  DeviceClock* const clock = Tracer::device_clock();
  if (clock == nullptr) return;
  const CollectiveFacts& facts = operation.facts();
  operation.begun = clock->mark(kCommunicationStream);
  operation.traced = Tracer::of_process().add_operation({.operation = facts.operation,
                                                         .group = facts.group,
                                                         .number = static_cast<std::uint64_t>(facts.number),
                                                         .elements = facts.elements,
                                                         .dtype = facts.dtype,
                                                         .ranks = facts.size,
                                                         .asynchronous = true,
                                                         .on_device = true});
}

void end_traced(const NcclOperation& operation) {
  DeviceClock* const clock = Tracer::device_clock();
  if (clock == nullptr || operation.begun < 0) return;
  Tracer::of_process().add({.kind = TraceSpan::Kind::transfer,
                            .thread = kCommunicationStream,
                            .name = operation.facts().operation,
                            .operation = operation.traced,
                            .device_begin = operation.begun,
                            .device_end = clock->mark(kCommunicationStream)});
}

/// A call on a non-blocking communicator may return before its work is done.
bool is_good(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

}  // namespace

std::string nccl_error_text(ncclResult_t result, ncclComm_t comm) {
  const std::string detail = ncclGetLastError(comm);
  return fmt::format("NCCL: {}{}{}", ncclGetErrorString(result), detail.empty() ? "" : ": ", detail);
}

void NcclOperation::require_alive() const {
  if (stopped_->empty()) return;
  fail(ExitCode::internal, "{}: NCCL was stopped on this rank: {}", facts_.str(), *stopped_);
}

NcclQueue& NcclQueue::of_process() {
  static NcclQueue queue;
  return queue;
}

NcclQueue::Operation NcclQueue::start(NcclGroup& group, CollectiveFacts facts, const Call& call) {
  facts.number = ++group.collectives;
  const auto operation = std::make_shared<NcclOperation>(std::move(facts), group.stopped);
  operation->require_alive();
  flush();
  operation->ready.record(gpu::compute_stream());
  launch({&group, operation}, call);
  return operation;
}

NcclQueue::Operation NcclQueue::post(NcclGroup& group, CollectiveFacts facts, Call call) {
  if (batch_ && batch_->launch.group != &group) flush();
  facts.number = ++group.messages;
  if (batch_) {
    batch_->launch.operation->take_along(facts);
  } else {
    const auto first = std::make_shared<NcclOperation>(std::move(facts), group.stopped);
    first->require_alive();
    batch_ = Batch{{&group, first}, {}};
  }
  const Operation operation = batch_->launch.operation;
  operation->ready.record(gpu::compute_stream());  // of the message that is posted last
  batch_->calls.push_back(std::move(call));
  return operation;
}

void NcclQueue::flush() {
  if (!batch_) return;
  const Batch batch = *std::exchange(batch_, std::nullopt);
  launch(batch.launch, [&] {
    ncclResult_t result = ncclGroupStart();
    try {
      for (const Call& call : batch.calls) {
        if (is_good(result)) result = call();
      }
    } catch (...) {  // of a ring of GPUs
      ncclGroupEnd();
      throw;
    }
    const ncclResult_t end = ncclGroupEnd();  // to be called whatever happened before
    return is_good(result) ? end : result;
  });
}

void NcclQueue::launch(const Launch& next, const Call& call) {
  settle();
  next.operation->ready.order(gpu::communication_stream());
  begin_traced(*next.operation);
  next.operation->stage = NcclOperation::Stage::launching;
  launching_ = next;
  watch_.add(next.operation);
  check_state(*next.group, call());
  settled();
}

/// Whether NCCL has put the operation that it was launching on the stream.
bool NcclQueue::settled() {
  if (!launching_) return true;
  ncclResult_t state = ncclSuccess;
  check_state(*launching_->group, ncclCommGetAsyncError(launching_->group->comm, &state));
  if (state == ncclInProgress) return false;
  check_state(*launching_->group, state);
  launching_->operation->finished.record(gpu::communication_stream());
  end_traced(*launching_->operation);
  launching_->operation->stage = NcclOperation::Stage::launched;
  launching_.reset();
  return true;
}

void NcclQueue::settle() {
  const auto start = Clock::now();
  auto checked = start;
  while (!settled()) {
    const auto now = Clock::now();
    if (now - checked > kCheckEvery) {
      check();
      checked = now;
    }
    if (now - start > kSpin) {
      std::this_thread::sleep_for(kPause);
    } else {
      std::this_thread::yield();  // NCCL's thread may have to share this one's core
    }
  }
}

bool NcclQueue::test(NcclOperation& operation) {
  operation.require_alive();
  if (operation.stage == NcclOperation::Stage::posted) flush();
  check();
  return operation.done();
}

void NcclQueue::order_compute_after(NcclOperation& operation) {
  operation.require_alive();
  if (std::exchange(operation.waited_for, true)) return;  // messages that were launched together are one operation
  if (operation.stage == NcclOperation::Stage::posted) flush();
  if (operation.stage == NcclOperation::Stage::launching) settle();
  DeviceClock* const clock = Tracer::device_clock();
  const std::int64_t begin = clock != nullptr ? clock->mark() : -1;
  stalls_.begin();
  operation.finished.order(gpu::compute_stream());
  stalls_.end();
  if (clock == nullptr) return;
  Tracer::of_process().add({.kind = TraceSpan::Kind::stall,
                            .thread = kComputeStream,
                            .name = operation.facts().operation,
                            .operation = operation.traced,
                            .device_begin = begin,
                            .device_end = clock->mark()});
}

void NcclQueue::check() {
  settled();
  for (const NcclGroup* group : groups_) {
    ncclResult_t state = ncclSuccess;
    check_state(*group, ncclCommGetAsyncError(group->comm, &state));
    check_state(*group, state);
  }
  try {
    watch_.check();
  } catch (const Error& error) {
    stop(error.what());
    throw;
  }
}

void NcclQueue::check_state(const NcclGroup& group, ncclResult_t state) {
  if (is_good(state)) return;
  const InFlight* oldest = watch_.oldest();
  const std::string during = oldest == nullptr ? "" : fmt::format(", during or after the {}", oldest->facts().str());
  const std::string message = fmt::format("group '{}', rank {} of {}{}: {}", group.name, group.rank, group.size, during,
                                          nccl_error_text(state, group.comm));
  stop(message);
  throw Error(ExitCode::internal, message);
}

void NcclQueue::leave(NcclGroup& group) {
  flush();
  settle();
  check();
  while (!watch_.idle()) {
    std::this_thread::sleep_for(kPause);
    check();
  }
  std::erase(groups_, &group);
  if (groups_.empty()) stalls_ = {};  // its events, while there is a device
}

void NcclQueue::stop(const std::string& why) noexcept {
  try {
    std::vector<ncclComm_t> comms;
    for (NcclGroup* group : groups_) {
      *group->stopped = why;
      if (group->ring != nullptr) group->ring->let_go();
      comms.push_back(std::exchange(group->comm, nullptr));
    }
    groups_.clear();
    batch_.reset();
    launching_.reset();
    watch_.clear();
    abort_together(comms);
  } catch (const std::exception&) {  // no memory or no thread: the job ends without the abort
  }
}

}  // namespace cohort
