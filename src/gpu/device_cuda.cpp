#include <cuda_runtime.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#include "base/counting.hpp"
#include "base/error.hpp"
#include "base/machine.hpp"
#include "base/text.hpp"
#include "gpu/device.hpp"

namespace cohort::gpu {
namespace {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  fail(ExitCode::internal, "{}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
}

// What an open device has. One per process: CUDA's current device is per process (and thread) too.
struct Open {
  DeviceFacts facts;
  cudaStream_t compute = nullptr;
  cudaStream_t communication = nullptr;
  cudaStream_t copy = nullptr;
  void* workspace = nullptr;
};
std::unique_ptr<Open> device;

Open& opened() {
  COHORT_CHECK(device != nullptr, "no device was opened");
  return *device;
}

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

[[noreturn]] void fail_out_of_device_memory(Bytes bytes, const std::string& label) {
  cudaGetLastError();  // a failed allocation stays the "last error" otherwise
  const MemoryInfo left = memory();
  fail(ExitCode::memory, "out of device memory: {} for {} does not fit; {} of {} free on {}", human_bytes(bytes), label,
       human_bytes(left.free), human_bytes(left.total), opened().facts.name);
}

[[noreturn]] void fail_out_of_pinned_memory(Bytes bytes, const std::string& label) {
  cudaGetLastError();
  const Memory node = machine_memory();
  fail(ExitCode::memory, "out of pinned host memory: {} for {} does not fit; {} of {} is available on this node",
       human_bytes(bytes), label, human_bytes(node.available), human_bytes(node.total));
}

bool done(cudaStream_t stream) {
  const cudaError_t status = cudaStreamQuery(stream);
  if (status == cudaErrorNotReady) return false;
  check(status, "a kernel or copy on the device failed");
  return true;
}

}  // namespace

bool built() { return true; }

int visible_devices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return count;
}

std::string why_no_device() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  cudaGetLastError();
  int driver = 0;
  int runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (driver == 0) return "no NVIDIA driver is loaded on this node";
  if (status == cudaErrorInsufficientDriver) {
    return fmt::format(
        "the driver (CUDA {}) is older than this program needs (CUDA {}): update it, or build with an older toolkit",
        version_text(driver), version_text(runtime));
  }
  if (status == cudaErrorNoDevice && visible != nullptr) {
    return fmt::format("CUDA_VISIBLE_DEVICES is \"{}\", which leaves no device", visible);
  }
  if (status != cudaSuccess) return fmt::format("CUDA says: {}", cudaGetErrorString(status));
  return "no NVIDIA device is visible";
}

DeviceFacts describe(int index) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, index), "reading the properties of a device");
  char pci_id[32] = "";
  check(cudaDeviceGetPCIBusId(pci_id, sizeof pci_id, index), "reading the PCI address of a device");
  int driver = 0;
  int runtime = 0;
  check(cudaDriverGetVersion(&driver), "reading the driver's version");
  check(cudaRuntimeGetVersion(&runtime), "reading the runtime's version");
  return {.index = index,
          .name = properties.name,
          .pci_id = pci_id,
          .compute_capability = properties.major * 10 + properties.minor,
          .multiprocessors = properties.multiProcessorCount,
          .memory = static_cast<Bytes>(properties.totalGlobalMem),
          .driver_cuda = version_text(driver),
          .runtime_cuda = version_text(runtime)};
}

void open(int index) {
  COHORT_CHECK(device == nullptr, "a device is open already");
  check(cudaSetDevice(index), "choosing the device");
  auto fresh = std::make_unique<Open>();
  fresh->facts = describe(index);
  // Non-blocking: not ordered against the legacy default stream, on which libraries might put work of their own.
  check(cudaStreamCreateWithFlags(&fresh->compute, cudaStreamNonBlocking), "creating the compute stream");
  int least = 0;
  int greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "reading stream priorities");
  // The higher priority lets a collective's few blocks start among the many of a matrix product.
  check(cudaStreamCreateWithPriority(&fresh->communication, cudaStreamNonBlocking, greatest),
        "creating the communication stream");
  check(cudaStreamCreateWithFlags(&fresh->copy, cudaStreamNonBlocking), "creating the copy stream");
  device = std::move(fresh);
  device->workspace = allocate(kWorkspaceBytes, "the workspace of the ops");
}

bool is_open() { return device != nullptr; }

const DeviceFacts& facts() { return opened().facts; }

void close() {
  if (device == nullptr) return;
  release(device->workspace);
  cudaStreamDestroy(device->copy);
  cudaStreamDestroy(device->communication);
  cudaStreamDestroy(device->compute);
  device.reset();
}

Stream compute_stream() { return counting() ? nullptr : opened().compute; }
Stream communication_stream() { return counting() ? nullptr : opened().communication; }
Stream copy_stream() { return counting() ? nullptr : opened().copy; }
void* workspace() { return opened().workspace; }

MemoryInfo memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "reading the device's free memory");
  return {static_cast<Bytes>(free), static_cast<Bytes>(total)};
}

void* allocate(Bytes bytes, const std::string& label) {
  void* memory = nullptr;
  if (cudaMalloc(&memory, static_cast<std::size_t>(bytes)) != cudaSuccess) fail_out_of_device_memory(bytes, label);
  return memory;
}

void release(void* memory) noexcept { cudaFree(memory); }

void* allocate_pinned(Bytes bytes, const std::string& label) {
  void* memory = nullptr;
  if (cudaMallocHost(&memory, static_cast<std::size_t>(bytes)) != cudaSuccess) fail_out_of_pinned_memory(bytes, label);
  return memory;
}

void release_pinned(void* memory) noexcept { cudaFreeHost(memory); }

void zero_async(void* memory, Bytes bytes, Stream stream) {
  if (counting()) return;
  check(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(bytes), stream), "zeroing device memory");
}

void copy_async(void* to, const void* from, Bytes bytes, Stream stream) {
  if (counting()) return;
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream), "copying device memory");
}

void copy(void* to, const void* from, Bytes bytes) {
  if (counting()) return;
  copy_async(to, from, bytes, compute_stream());
  check(cudaStreamSynchronize(compute_stream()), "copying device memory");
}

Event::Event(Kind kind) {
  if (counting()) return;
  const unsigned flags = kind == Kind::timing ? cudaEventDefault : cudaEventDisableTiming;
  check(cudaEventCreateWithFlags(&event_, flags), "creating an event");
}
Event::~Event() {
  if (event_ != nullptr) cudaEventDestroy(event_);
}
void Event::record(Stream stream) {
  if (!counting()) check(cudaEventRecord(event_, stream), "recording an event");
}
void Event::order(Stream stream) const {
  if (!counting()) check(cudaStreamWaitEvent(stream, event_), "ordering a stream after an event");
}
bool Event::happened() const {
  if (counting()) return true;
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) return false;
  check(status, "a kernel or copy on the device failed");
  return true;
}

void Event::wait() const {
  if (!counting()) check(cudaEventSynchronize(event_), "a kernel or copy on the device failed");
}

double milliseconds_between(const Event& begin, const Event& end) {
  float milliseconds = 0.0f;
  check(cudaEventElapsedTime(&milliseconds, begin.handle(), end.handle()), "reading the time between events");
  return static_cast<double>(milliseconds);
}

void synchronize(const std::function<void()>& poll) {
  if (counting()) return;
  using Clock = std::chrono::steady_clock;
  constexpr auto kSpin = std::chrono::microseconds(200);
  constexpr auto kPause = std::chrono::microseconds(100);
  constexpr auto kPollEvery = std::chrono::milliseconds(1);
  Clock::time_point polled = Clock::now();
  const Clock::time_point start = polled;
  while (!done(compute_stream()) || !done(communication_stream()) || !done(copy_stream())) {
    const Clock::time_point now = Clock::now();
    if (poll && now - polled > kPollEvery) {
      poll();
      polled = now;
    }
    if (now - start > kSpin) std::this_thread::sleep_for(kPause);
  }
}

void check_launch(const char* what) { check(cudaGetLastError(), what); }

}  // namespace cohort::gpu
