// What this process did in the steps that are traced: spans of time, for a trace that a timeline viewer opens (trace_json.hpp).
// Off, as it is but in these steps, a span costs two loads.
//
// Each rank keeps its spans in memory until the last traced step is done; nothing is written before. The spans of one thread
// nest:
//   thread 0, of the steps       step > phase (timers.hpp) > micro-batch > layer > wait in an operation among ranks
//   other threads                a span that is named for what they do (BackgroundSpan), with the waits in it
// Operations among ranks come from the flight recorder, which every communicator writes to: each is a request, from its start to
// its end, and, where a thread waited for it, a wait. Requests overlap each other and the work.
//
// On a GPU the host's spans tell when work was put on the device. What the device did is beside them: the same spans as the
// compute stream passed them, operations as the communication stream did, the stalls in which the compute stream waited for
// these, and, with CUPTI, each kernel (gpu/stream_clock.hpp, gpu/kernel_trace.hpp).
//
// The same spans are ranges for tools from outside: NVTX, where a build has CUDA, and Kokkos Tools, where one is loaded.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "observe/flight_recorder.hpp"

namespace cohort {

// Numbers of what is no thread of the host, in TraceSpan::thread. The kernels of stream n are at kKernelStreams + n.
inline constexpr int kComputeStream = 100, kCommunicationStream = 101, kKernelStreams = 200;

struct TraceSpan {
  /// transfer: an operation among ranks on the communication stream. stall: the compute stream waits for one.
  enum class Kind : std::uint8_t { step, phase, micro_batch, layer, work, wait, request, transfer, stall, kernel };
  Kind kind = Kind::work;
  int thread = 0;               // of this process; 0: the thread of the steps
  std::string name{};           // "backward", "blocks.3", "all_reduce"
  std::string_view pass{};      // of a layer: "forward", "backward"; of static storage
  double begin = 0.0;           // seconds of steady_seconds()
  double end = 0.0;             //
  int micro_batch = -1;         // of a micro-batch, from 0
  int chunk = -1;               // of a pipeline
  std::int64_t operation = -1;  // of waits, requests and what the device did for them: its number in Tracer::operations()
  std::int64_t device_begin = -1, device_end = -1;  // points of the device's clock, of which end() makes the times
};

/// Points in the streams of a device, and when they came. Implemented in gpu/stream_clock.hpp.
class DeviceClock {
 public:
  virtual ~DeviceClock() = default;
  /// All that was put on the compute stream (kComputeStream), or on that for communication, so far.
  virtual std::int64_t mark(int stream = kComputeStream) = 0;
  /// In seconds of steady_seconds(); the device must have passed it.
  virtual double seconds(std::int64_t mark) const = 0;
};

/// A profiler that wants ranges of the calling thread; they nest.
struct RangeTool {
  void (*push)(const char* name);
  void (*pop)();
};

class BackgroundSpan;

class Tracer {
 public:
  static Tracer& of_process();
  /// Whether anybody wants spans, of which this is the cheap question.
  static bool wanted() { return wanted_.load(std::memory_order_relaxed) != 0; }
  /// Whether they are traced.
  static bool on() { return (wanted_.load(std::memory_order_relaxed) & kTraced) != 0; }

  /// Ranges go to this tool from now on, to the end of the process. To be called before other threads run.
  void add_range_tool(RangeTool tool);

  /// Forgets what was traced and starts. `clock`, which must live until after end(), is that of the device; null without one.
  void begin(DeviceClock* clock = nullptr);
  /// Stops: spans that are open now, of other threads, end here. The device must be idle.
  void end();
  /// Stops if need be, on the way out of an error, too, and forgets all.
  void abandon();
  /// When, in seconds of steady_seconds().
  double began() const { return began_; }
  /// That of the device, while it is traced; else null.
  static DeviceClock* device_clock() { return on() ? of_process().clock_ : nullptr; }

  /// A span whose times somebody knows. Safe from any thread, as all that records.
  void add(TraceSpan span);
  /// The number of an operation, for spans of it.
  std::int64_t add_operation(OperationRecord record);

  /// What was traced, after end(): in no particular order.
  const std::vector<TraceSpan>& spans() const { return spans_; }
  const std::vector<OperationRecord>& operations() const { return operations_; }

 private:
  friend class TraceScope;
  friend class BackgroundSpan;
  static constexpr int kTraced = 1, kRanges = 2;
  void take_finished(const OperationRecord& record);
  void add_locked(TraceSpan span);

  inline static std::atomic<int> wanted_{0};
  std::mutex mutex_;
  std::vector<BackgroundSpan*> background_;  // those that are open
  std::vector<TraceSpan> spans_;
  std::vector<OperationRecord> operations_;
  std::vector<RangeTool> tools_;
  DeviceClock* clock_ = nullptr;
  double began_ = 0.0;
};

/// What a thread in the background does until the end of the C++ scope. Known whether or not its time is traced: a trace that
/// begins or ends meanwhile has its part.
class BackgroundSpan {
 public:
  /// `thread`: its number in the spans that it adds, from 1. `name` is of static storage.
  BackgroundSpan(int thread, const char* name);
  ~BackgroundSpan();
  BackgroundSpan(const BackgroundSpan&) = delete;
  BackgroundSpan& operator=(const BackgroundSpan&) = delete;

 private:
  friend class Tracer;
  TraceSpan span_;
};

/// A span from here to the end of the C++ scope, and a range of the tools. `name` outlives it.
class TraceScope {
 public:
  TraceScope(TraceSpan::Kind kind, const char* name, int micro_batch = -1, int chunk = -1) {
    if (Tracer::wanted()) open(kind, name, {.micro_batch = micro_batch, .chunk = chunk});
  }
  /// A layer, in a pass.
  TraceScope(const char* layer, const char* pass) {
    if (Tracer::wanted()) open(TraceSpan::Kind::layer, layer, {.pass = pass});
  }
  ~TraceScope() {
    if (open_) close();
  }
  /// For who has read the clock already: the span has these times, and agrees with what else is made of them.
  void begin_at(double seconds) {
    if (begin_ != 0.0) begin_ = seconds;
  }
  void end_at(double seconds) { end_ = seconds; }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  struct Facts {
    int micro_batch = -1, chunk = -1;
    const char* pass = "";
  };
  void open(TraceSpan::Kind kind, const char* name, const Facts& facts);
  void close();

  bool open_ = false, in_tools_ = false;
  TraceSpan::Kind kind_{};
  const char* name_ = nullptr;
  Facts facts_{};
  double begin_ = 0.0, end_ = 0.0;  // 0: not traced; not known
  std::int64_t device_begin_ = -1;
};

}  // namespace cohort
