#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <bit>

#include "base/error.hpp"
#include "gpu/peer_memory.hpp"

namespace cohort::gpu {
namespace {

static_assert(sizeof(PeerHandle) == sizeof(cudaIpcMemHandle_t));

void require(cudaError_t status, const char* what) {
  if (status != cudaSuccess) fail(ExitCode::internal, "{}: {}", what, cudaGetErrorString(status));
}

// By way of the runtime: the program is not linked with the driver's library, which machines without GPUs lack.
template <class Function>
Function driver_function(const char* name) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  require(cudaGetDriverEntryPointByVersion(name, &entry, 11070, cudaEnableDefault, &found),
          "looking for a function of the CUDA driver");
  if (entry == nullptr) fail(ExitCode::launch, "the CUDA driver has no {}", name);
  return reinterpret_cast<Function>(entry);
}

CUdeviceptr address(std::byte* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

cudaStream_t prior_stream() {
  int least = 0, greatest = 0;
  require(cudaDeviceGetStreamPriorityRange(&least, &greatest), "reading stream priorities");
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest), "creating a stream");
  return stream;
}

}  // namespace

std::optional<PeerHandle> share(void* memory) {
  cudaIpcMemHandle_t handle{};
  if (cudaIpcGetMemHandle(&handle, memory) == cudaSuccess) return std::bit_cast<PeerHandle>(handle);
  cudaGetLastError();  // forgotten: the caller has another way
  return std::nullopt;
}

std::byte* open_peer(const PeerHandle& handle) {
  void* memory = nullptr;
  if (cudaIpcOpenMemHandle(&memory, std::bit_cast<cudaIpcMemHandle_t>(handle), cudaIpcMemLazyEnablePeerAccess) == cudaSuccess)
    return static_cast<std::byte*>(memory);
  cudaGetLastError();
  return nullptr;
}

void close_peer(std::byte* memory) noexcept { cudaIpcCloseMemHandle(memory); }

void write_counter(Stream stream, std::byte* counter, std::uint32_t value) {
  static const auto write = driver_function<PFN_cuStreamWriteValue32_v11070>("cuStreamWriteValue32");
  if (write(stream, address(counter), value, CU_STREAM_WRITE_VALUE_DEFAULT) != CUDA_SUCCESS)
    fail(ExitCode::internal, "putting the write of a counter on a stream");
}

void await_counter(Stream stream, std::byte* counter, std::uint32_t value) {
  static const auto wait = driver_function<PFN_cuStreamWaitValue32_v11070>("cuStreamWaitValue32");
  if (wait(stream, address(counter), value, CU_STREAM_WAIT_VALUE_GEQ) != CUDA_SUCCESS)
    fail(ExitCode::internal, "putting the wait for a counter on a stream");
}

void write_counter_soon(std::byte* counter, std::uint32_t value) {
  const SideStream stream;  // what is on it when it is destroyed still runs
  write_counter(stream.get(), counter, value);
}

SideStream::SideStream() : stream_(prior_stream()) {}
SideStream::~SideStream() { cudaStreamDestroy(stream_); }

}  // namespace cohort::gpu
