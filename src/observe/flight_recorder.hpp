// What this process has been doing, for whoever must find out why a job hangs: the step, the activity, and a ring of the
// last operations among ranks, with their call sites and times. Every Communicator writes into it; the job's monitor
// (watch/monitor.hpp) reads it from a thread of its own.
//
// Keeping it costs well under a microsecond an operation: one lock that hardly anybody else holds, and a record that is
// overwritten (kept aside where it is still in flight).
//
// Step and activity can also be kept in a file, which outlives a process that is killed: a write into the system's cache of files
// (some microseconds, a dozen times a step), not a mapping, which a full or lost file system would turn into a signal.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/units.hpp"

namespace cohort {

/// One operation among ranks, as this rank sees it.
struct OperationRecord {
  std::string_view operation;                         // "all_reduce"; of static storage
  std::string group{};                                // name of the communicator
  std::shared_ptr<const std::vector<int>> members{};  // the ranks of the group, by their numbers in the job; null if unknown
  std::uint64_t number = 0;  // among the collectives of its group, from 1: the same on all ranks; 0: a message
  int peer = -1;             // of a message, by its number in the job; -1: a collective
  Count elements = 0;
  DType dtype = DType::u8;
  int ranks = 1;                // of the group
  bool asynchronous = false;    // the caller did not wait at once
  bool on_device = false;       // the host never waits for it, and learns of its end some time later
  std::source_location site{};  // who called
  Count step = 0;               // the training step in which it was started, 1 the first; 0: before that
  double started = 0.0;         // seconds of the recorder's clock
  double waiting_since = 0.0;   // when the rank began to wait for it; 0: it does not
  double finished = 0.0;        // 0: in flight

  /// Payload of this rank.
  Bytes bytes() const { return elements * size_of(dtype); }
  bool waits() const { return waiting_since > 0.0 && finished == 0.0; }
  /// "all_reduce of 12345 fp32 on 'dp' (number 88, data_parallel.cpp:120)", "recv of 64 fp32 from rank 2 on 'pp' (engine.cpp:9)".
  std::string str() const;
};

class FlightRecorder {
 public:
  /// Of the operations that have ended, those among the last so many to begin are kept; one that is in flight is kept however
  /// many began after it. On a host that is history enough to find where ranks part: none gets further ahead of another than an
  /// operation, or a turn around a ring, lets it. A device has a step's operations in flight, thousands of them.
  static constexpr std::size_t kRecords = 256;
  using Id = std::uint64_t;
  static constexpr Id kNone = 0;

  using TimeSource = double (*)();  // seconds since some moment
  FlightRecorder();                 // on the steady clock
  explicit FlightRecorder(TimeSource clock) : clock_(clock), activity_since_(clock()) {}
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;
  /// The recorder that the communicators of this process write to.
  static FlightRecorder& of_process();

  /// The operation is in flight from now on; `record` has what does not depend on this recorder.
  Id begin(OperationRecord record);
  /// The rank waits for it from now on.
  void wait(Id id);
  void finish(Id id);

  /// The training step that begins, 1 the first. What follows it (a validation, a save) is its part.
  void set_step(Count step);
  /// What the process does outside of operations: "forward", "reading a checkpoint". `activity` is of static storage.
  void set_activity(std::string_view activity);
  /// From now on the file at `path` has the step and the activity as they are; its folder exists. Where it cannot be written it
  /// is missing or out of date, and nothing else happens.
  void keep_in(const std::filesystem::path& path);

  /// `listener` is told of each operation that ends from now on, by the thread that saw its end; null ends it. For a short time:
  /// the recorder is locked meanwhile.
  using Listener = void (*)(const OperationRecord& record);
  void on_finish(Listener listener);

  /// Something happened that is not an operation: a piece of a file was written. Who does something long without operations calls
  /// it now and then, or the monitor takes the process for stuck.
  void beat();
  /// For those who take a plain function: of_process().beat().
  static void heartbeat_of_process() { of_process().beat(); }

  /// For calls that may take minutes and cannot say how they get on, such as an fsync of a large file: while one lives the
  /// process counts as making progress, for at most kLongestCall seconds. Scopes of several threads may overlap.
  class LongCall {
   public:
    explicit LongCall(std::string_view activity, FlightRecorder& recorder = of_process());
    ~LongCall();
    LongCall(const LongCall&) = delete;
    LongCall& operator=(const LongCall&) = delete;

   private:
    FlightRecorder& recorder_;
    std::string_view outer_;
  };
  static constexpr double kLongestCall = 1800.0;

  struct State {
    Count step = 0;  // 0: no step has begun
    std::string_view activity;
    double seconds_in_activity = 0.0;
    std::uint64_t progress = 0;               // as of progress()
    std::uint64_t changes = 0;                // of step and activity, so far
    std::vector<OperationRecord> waiting;     // oldest first
    std::optional<OperationRecord> finished;  // the last one
    double now = 0.0;
  };
  State state() const;
  /// A number that rises with all that is recorded, and in a LongCall with time: when it stops rising, this process hangs.
  std::uint64_t progress() const;
  /// By when they began, the oldest first.
  std::vector<OperationRecord> records() const;

 private:
  OperationRecord* find(Id id);
  void changed();                               // step or activity; with the lock
  std::uint64_t progress_by(double now) const;  // with the lock

  TimeSource clock_;
  Listener on_finish_ = nullptr;
  mutable std::mutex mutex_;
  std::array<OperationRecord, kRecords> ring_{};
  Id last_ = kNone;                         // number n is in slot n % kRecords
  std::map<Id, OperationRecord> outlived_;  // in flight, and kRecords or more began after it
  Id last_finished_ = kNone;
  OperationRecord finished_outlived_;  // number last_finished_ where that is no longer in the ring
  Count step_ = 0;
  std::string_view activity_ = "starting";
  double activity_since_;
  std::uint64_t progress_ = 0, changes_ = 0;
  int long_calls_ = 0;
  double long_call_since_ = 0.0;  // of the first of those that overlap
  int file_ = -1;                 // of keep_in()
};

/// What the file of FlightRecorder::keep_in() says.
struct KeptState {
  std::int64_t process = 0;
  Count step = 0;
  std::uint64_t changes = 0;  // as of FlightRecorder::State
  std::string activity;
};
/// Nothing if there is no such file, or it is not whole.
std::optional<KeptState> read_kept_state(const std::filesystem::path& path);

}  // namespace cohort
