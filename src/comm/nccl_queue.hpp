// What all NCCL communicators of a process share: the one stream that they run on, the operation that NCCL is still putting
// there, the messages that are collected, and the watch over what is in flight. Internal to the NCCL backend; used from one
// thread.
//
// The life of an operation:
//   posted     a message that waits for others to be launched with
//   launching  NCCL has it, on a thread of its own, and connects the peers first where it must. One at a time: the next is
//              launched only when this one is on the stream, so that the stream has the order of the program.
//   launched   on the stream; its completion event has been recorded behind it
#pragma once

#include <nccl.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/collective_watch.hpp"
#include "comm/communicator.hpp"
#include "gpu/device.hpp"
#include "gpu/stall_meter.hpp"
#include "observe/tracer.hpp"

namespace cohort {

class PeerRing;

/// An NCCL communicator and what is said of it. Owned by the NcclCommunicator, known to the queue while it lives.
struct NcclGroup {
  std::string name;
  int rank = 0;
  int size = 1;
  ncclComm_t comm = nullptr;
  PeerRing* ring = nullptr;  // if messages go around one
  Count collectives = 0;     // started so far
  Count messages = 0;
  std::shared_ptr<std::string> stopped =
      std::make_shared<std::string>();  // why, once NCCL was aborted; shared with its operations
};

class NcclOperation : public InFlight {
 public:
  enum class Stage { posted, launching, launched };
  NcclOperation(CollectiveFacts facts, std::shared_ptr<const std::string> stopped)
      : InFlight(std::move(facts)), stopped_(std::move(stopped)) {}

  bool may_run() const override { return ready.happened(); }
  bool done() const override { return stage == Stage::launched && finished.happened(); }
  /// One more message is launched with it.
  void take_along(const CollectiveFacts& message) {
    ++facts_.more;
    records.push_back(message.record);
  }
  /// Throws if NCCL was aborted meanwhile.
  void require_alive() const;

  Stage stage = Stage::posted;
  gpu::Event ready;         // its inputs, on the compute stream
  gpu::Event finished;      // recorded behind it on the communication stream
  bool waited_for = false;  // by the compute stream
  // Of a trace: its number there, and where it begins on the communication stream; -1: it is not traced.
  std::int64_t traced = -1, begun = -1;

 private:
  std::shared_ptr<const std::string> stopped_;
};

class NcclQueue {
 public:
  using Call = std::function<ncclResult_t()>;
  using Operation = std::shared_ptr<NcclOperation>;

  static NcclQueue& of_process();

  void enter(NcclGroup& group) { groups_.push_back(&group); }
  /// Waits until nothing is in flight; the group is then not used any more.
  void leave(NcclGroup& group);

  /// Launches a collective.
  Operation start(NcclGroup& group, CollectiveFacts facts, const Call& call);
  /// Collects a message.
  Operation post(NcclGroup& group, CollectiveFacts facts, Call call);
  /// Launches the messages that were collected.
  void flush();
  /// Whether the operation has been done; gives it a chance to make progress.
  bool test(NcclOperation& operation);
  /// The compute stream waits for the operation from now on. The host waits until NCCL has put it on the stream.
  void order_compute_after(NcclOperation& operation);

  /// Seconds that the compute stream stood still for operations since the last call; it must have passed them all.
  double take_stalled() { return stalls_.take(); }
  void forget_stalled() { stalls_.forget(); }
  /// Whether there is a group.
  bool used() const { return !groups_.empty(); }

  /// See check_nccl_progress().
  void check();
  CollectiveWatch& watch() { return watch_; }
  /// Aborts all communicators of the process; what they are asked for later throws, saying why.
  void stop(const std::string& why) noexcept;

 private:
  struct Launch {
    NcclGroup* group;
    Operation operation;
  };
  struct Batch {
    Launch launch;
    std::vector<Call> calls;
  };
  void launch(const Launch& next, const Call& call);
  bool settled();
  void settle();
  void check_state(const NcclGroup& group, ncclResult_t state);

  std::vector<NcclGroup*> groups_;
  std::optional<Batch> batch_;
  std::optional<Launch> launching_;
  CollectiveWatch watch_;
  gpu::StallMeter stalls_;
};

/// NCCL's words for a result, with the detail of the last thing that went wrong.
std::string nccl_error_text(ncclResult_t result, ncclComm_t comm);

}  // namespace cohort
