#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/error.hpp"
#include "base/text.hpp"
#include "gpu/links.hpp"

namespace cohort::gpu {
namespace {

constexpr int kCopies = 5;  // of which the best counts

void check_link(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // a failed call stays the "last error" otherwise
  fail(status == cudaErrorMemoryAllocation ? ExitCode::memory : ExitCode::internal, "{}: {} ({})", what,
       cudaGetErrorString(status), cudaGetErrorName(status));
}

// Makes a device current until the end of the scope.
class Current {
 public:
  explicit Current(int index) {
    check_link(cudaGetDevice(&before_), "asking for the current device");
    check_link(cudaSetDevice(index), "choosing a device");
  }
  ~Current() { cudaSetDevice(before_); }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  int before_ = 0;
};

struct FreeDevice {
  void operator()(std::byte* memory) const noexcept { cudaFree(memory); }
};
struct FreePinned {
  void operator()(std::byte* memory) const noexcept { cudaFreeHost(memory); }
};
struct DestroyStream {
  void operator()(cudaStream_t stream) const noexcept { cudaStreamDestroy(stream); }
};
using DeviceMemory = std::unique_ptr<std::byte[], FreeDevice>;
using PinnedMemory = std::unique_ptr<std::byte[], FreePinned>;
using OwnStream = std::unique_ptr<CUstream_st, DestroyStream>;

// On the current device, as all here.
DeviceMemory device_memory(Bytes bytes) {
  void* memory = nullptr;
  check_link(cudaMalloc(&memory, static_cast<std::size_t>(bytes)), "allocating device memory for the measurement");
  return DeviceMemory(static_cast<std::byte*>(memory));
}

PinnedMemory pinned_memory(Bytes bytes) {
  void* memory = nullptr;
  check_link(cudaMallocHost(&memory, static_cast<std::size_t>(bytes)), "allocating pinned host memory for the measurement");
  return PinnedMemory(static_cast<std::byte*>(memory));
}

OwnStream new_stream() {
  cudaStream_t stream = nullptr;
  check_link(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
  return OwnStream(stream);
}

// Bytes per second of the fastest copy; the host's clock is good enough for copies of milliseconds.
template <class Copy>
double best_rate(cudaStream_t stream, Bytes bytes, const Copy& copy) {
  double best = 0.0;
  for (int i = 0; i <= kCopies; ++i) {  // the first one warms up
    const auto begin = std::chrono::steady_clock::now();
    check_link(copy(), "starting a copy");
    check_link(cudaStreamSynchronize(stream), "copying");
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (i > 0) best = std::max(best, static_cast<double>(bytes) / seconds);
  }
  return best;
}

}  // namespace

DeviceSpeeds measure_device(int index, Bytes bytes, const std::function<void()>& under_load) {
  const Current current(index);
  const auto size = static_cast<std::size_t>(bytes);
  const DeviceMemory first = device_memory(bytes);
  const DeviceMemory second = device_memory(bytes);
  const PinnedMemory host = pinned_memory(bytes);
  const OwnStream stream = new_stream();
  const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind) {
    return [=, &stream] { return cudaMemcpyAsync(to, from, size, kind, stream.get()); };
  };
  DeviceSpeeds speeds;
  speeds.to_device = best_rate(stream.get(), bytes, copy(first.get(), host.get(), cudaMemcpyHostToDevice));
  speeds.from_device = best_rate(stream.get(), bytes, copy(host.get(), first.get(), cudaMemcpyDeviceToHost));
  const auto within = copy(second.get(), first.get(), cudaMemcpyDeviceToDevice);
  speeds.memory = best_rate(stream.get(), 2 * bytes, within);
  const int copies = std::clamp(static_cast<int>(0.25 * speeds.memory / static_cast<double>(2 * bytes)), 1, 10000);
  for (int i = 0; i < copies; ++i) check_link(within(), "starting a copy");
  under_load();
  check_link(cudaStreamSynchronize(stream.get()), "copying within a device");
  return speeds;
}

bool has_peer_access(int from, int to) {
  int can = 0;
  check_link(cudaDeviceCanAccessPeer(&can, from, to), "asking whether two devices reach each other");
  return can != 0;
}

double measure_pair(int from, int to, Bytes bytes) {
  DeviceMemory target;
  {
    const Current at_target(to);
    target = device_memory(bytes);
  }
  const Current current(from);
  const DeviceMemory source = device_memory(bytes);
  const OwnStream stream = new_stream();
  // Without it the driver goes through the host although it need not. Taken back afterwards: it is the program's to decide.
  const bool enabled = has_peer_access(from, to) && cudaDeviceEnablePeerAccess(to, 0) == cudaSuccess;
  cudaGetLastError();  // it was enabled already
  const double rate = best_rate(stream.get(), bytes, [&] {
    return cudaMemcpyPeerAsync(target.get(), to, source.get(), from, static_cast<std::size_t>(bytes), stream.get());
  });
  if (enabled) cudaDeviceDisablePeerAccess(to);
  return rate;
}

}  // namespace cohort::gpu
