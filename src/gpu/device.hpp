// The GPU of this process: one device, one stream that computes, one that communicates, and one for copies of what was offloaded
// to the host. Everything a step does on the device is put on one of them, in order; the host does not wait except where a
// function here says so.
//
// Two implementations, one of which CMake picks: device_cuda.cpp, and no_device.cpp for builds without CUDA, in which no device
// is ever visible and everything else throws.
//
// In a thread that counts (base/counting.hpp) streams, events, copies and synchronize() do nothing, device or not.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "base/units.hpp"

struct CUstream_st;  // cudaStream_t is a pointer to it
struct CUevent_st;

namespace cohort::gpu {

using Stream = CUstream_st*;

/// True if this program was compiled with CUDA.
bool built();

/// Devices that this process may use (after CUDA_VISIBLE_DEVICES); 0 if there are none or no driver. Never throws.
int visible_devices();
/// Why visible_devices() is 0, for messages: "this build of Cohort has no CUDA", "no NVIDIA driver is loaded", "the driver (CUDA
/// 12.2) is older than this program needs (CUDA 13.0)", "CUDA_VISIBLE_DEVICES is empty".
std::string why_no_device();

struct DeviceFacts {
  int index = 0;
  std::string name;    // "NVIDIA H200"
  std::string pci_id;  // "0000:1B:00.0": tells physical devices of one node apart, whatever CUDA_VISIBLE_DEVICES renumbers
  int compute_capability = 0;  // 90 for Hopper
  int multiprocessors = 0;
  Bytes memory = 0;
  std::string driver_cuda;   // newest CUDA that the driver supports, "13.0"
  std::string runtime_cuda;  // CUDA that this program was built with
};
DeviceFacts describe(int index);

/// Makes `index` the device of this process and creates its streams and workspace. Called once, by the Runtime.
void open(int index);
bool is_open();
/// Of the open device.
const DeviceFacts& facts();
void close();

/// All computation; tensors are zeroed and copied on it too.
Stream compute_stream();
/// Collectives. Ordered against the compute stream only by events.
Stream communication_stream();
/// Copies from and to the host that run beside both. Ordered against them only by events.
Stream copy_stream();

struct MemoryInfo {
  Bytes free = 0;
  Bytes total = 0;
};
MemoryInfo memory();

/// Device memory, uninitialised. Throws Error(memory) naming `label`, the size and what the device has left.
void* allocate(Bytes bytes, const std::string& label);
void release(void* memory) noexcept;

/// Host memory that the device can copy from and to while the host continues.
void* allocate_pinned(Bytes bytes, const std::string& label);
void release_pinned(void* memory) noexcept;

/// A block of device memory for the scratch needs of ops on the compute stream; its contents last until the next op.
inline constexpr Bytes kWorkspaceBytes = 128 * kMiB;
void* workspace();

/// In stream order; host memory given to copy_async must be pinned and stay as it is until the copy has run. Any direction.
void zero_async(void* memory, Bytes bytes, Stream stream);
void copy_async(void* to, const void* from, Bytes bytes, Stream stream);
/// Waits for the host: on return the copy has been made. Any direction, any memory.
void copy(void* to, const void* from, Bytes bytes);

/// A point in a stream.
class Event {
 public:
  enum class Kind { order, timing };
  explicit Event(Kind kind = Kind::order);  // of no point yet; only timing events have a time
  ~Event();
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  /// The event now means: all that has been put on the stream so far.
  void record(Stream stream);
  /// What is put on the stream from now on runs after the event. The host does not wait.
  void order(Stream stream) const;
  /// True if the event has happened.
  bool happened() const;
  /// The host waits until the event has happened. For copies: of lost peers it does not learn (see synchronize).
  void wait() const;
  CUevent_st* handle() const { return event_; }

 private:
  CUevent_st* event_ = nullptr;
};
/// Milliseconds of device time between two timing events that have happened.
double milliseconds_between(const Event& begin, const Event& end);

/// Waits until all streams are done. Meanwhile calls `poll` about every millisecond, which may throw: that is how lost peers and
/// time-outs of collectives surface. Throws Error(internal) if a kernel failed.
void synchronize(const std::function<void()>& poll = {});

/// Throws Error(internal) naming `what` if the last kernel launch failed. Call after launching.
void check_launch(const char* what);

}  // namespace cohort::gpu
