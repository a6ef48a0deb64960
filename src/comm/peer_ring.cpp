#include "comm/peer_ring.hpp"

#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/machine.hpp"
#include "comm/consensus.hpp"
#include "comm/nccl_communicator.hpp"

namespace cohort {
namespace {

// In front of the slot. Each counter has a cache line of its own; the slot begins where any tensor could.
constexpr Bytes kArrived = 0;  // written by the rank before
constexpr Bytes kTaken = 256;  // written by the next rank
constexpr Bytes kSlot = 4096;
// cudaMalloc gives memory in granules of this size; a handle of less would also open what shares the granule.
constexpr Bytes kGranule = 2 * kMiB;

// Fewer leave more to copy when the last has arrived; each costs some microseconds of the copy engine.
constexpr Bytes kPieces = 4;

// Calls work(offset, bytes) for each piece of a message.
template <class Work>
void for_each_piece(Bytes bytes, const Work& work) {
  for (Bytes piece = 0; piece < kPieces; ++piece) {
    const Bytes begin = bytes * piece / kPieces;
    work(begin, bytes * (piece + 1) / kPieces - begin);
  }
}

// Counters are compared as the driver does, modulo 2^32: half of the range is ahead.
constexpr std::uint32_t kFarAhead = 1U << 30;

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) fail(ExitCode::internal, "{}: {}", what, cudaGetErrorString(status));
}

// By way of the runtime: the program is not linked with the driver's library, which machines without GPUs lack.
template <class Function>
Function driver_function(const char* name) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  check(cudaGetDriverEntryPointByVersion(name, &entry, 11070, cudaEnableDefault, &found),
        "looking for a function of the CUDA driver");
  if (entry == nullptr) fail(ExitCode::launch, "the CUDA driver has no {}", name);
  return reinterpret_cast<Function>(entry);
}

CUdeviceptr address(std::byte* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

void write_counter(gpu::Stream stream, std::byte* counter, std::uint32_t value) {
  static const auto write = driver_function<PFN_cuStreamWriteValue32_v11070>("cuStreamWriteValue32");
  // The default: what the stream did before is visible to all before the value is.
  if (write(stream, address(counter), value, CU_STREAM_WRITE_VALUE_DEFAULT) != CUDA_SUCCESS)
    fail(ExitCode::internal, "writing a counter of a ring of GPUs");
}

void await_counter(gpu::Stream stream, std::byte* counter, std::uint32_t value) {
  static const auto wait = driver_function<PFN_cuStreamWaitValue32_v11070>("cuStreamWaitValue32");
  if (wait(stream, address(counter), value, CU_STREAM_WAIT_VALUE_GEQ) != CUDA_SUCCESS)
    fail(ExitCode::internal, "waiting for a counter of a ring of GPUs");
}

bool forbidden() {
  const char* const disabled = std::getenv("NCCL_P2P_DISABLE");
  return disabled != nullptr && std::string_view(disabled) == "1";
}

std::byte* opened(const cudaIpcMemHandle_t& handle) {
  void* memory = nullptr;
  if (cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess)
    return static_cast<std::byte*>(memory);
  cudaGetLastError();  // forgotten: there is another way
  return nullptr;
}

}  // namespace

std::unique_ptr<PeerRing> PeerRing::make(Communicator& host) {
  const std::string node = forbidden() ? "" : boot_id();
  if (!same_on_all_ranks(host, node) || node.empty()) return nullptr;
  std::unique_ptr<PeerRing> ring(new PeerRing(host));
  return ring->open(kGranule - kSlot) ? std::move(ring) : nullptr;
}

PeerRing::PeerRing(Communicator& host) : host_(host) {
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "reading stream priorities");
  check(cudaStreamCreateWithPriority(&taking_, cudaStreamNonBlocking, greatest), "creating a stream");
}

PeerRing::~PeerRing() {
  // Of a process that is about to end they may be in use.
  if (let_go_ || std::uncaught_exceptions() > 0) return;
  close_neighbours();
  cudaStreamDestroy(taking_);
}

void PeerRing::reserve(Bytes bytes) {
  if (bytes <= room_) return;
  close();
  if (!open(bytes)) fail(ExitCode::internal, "GPUs of this node can no longer reach each other's memory");
}

bool PeerRing::open(Bytes bytes) {
  const Bytes size = (kSlot + bytes + kGranule - 1) / kGranule * kGranule;
  cudaIpcMemHandle_t handle{};
  bool exported = false;
  fail_together(host_, "making room for messages between GPUs", [&] {
    own_ = static_cast<std::byte*>(gpu::allocate(size, "messages around a ring"));
    gpu::zero_async(own_, kSlot, gpu::communication_stream());
    gpu::synchronize(check_nccl_progress);
    exported = cudaIpcGetMemHandle(&handle, own_) == cudaSuccess;
    if (!exported) cudaGetLastError();
  });
  const bool opened = open_neighbours(&handle) && exported;
  sent_ = received_ = 0;
  room_ = size - kSlot;
  if (all_reduce_value(host_, opened ? 0 : 1, ReduceOp::max) == 0) return true;
  close_neighbours();
  host_.barrier();
  gpu::release(std::exchange(own_, nullptr));
  return false;
}

// Collective over: host
bool PeerRing::open_neighbours(const void* own_handle) {
  std::vector<cudaIpcMemHandle_t> handles(static_cast<std::size_t>(host_.size()));
  host_.all_gather(own_handle, handles.data(), sizeof(cudaIpcMemHandle_t), DType::u8);
  next_ = opened(handles[static_cast<std::size_t>(next())]);
  before_ = before() == next() ? next_ : opened(handles[static_cast<std::size_t>(before())]);
  return next_ != nullptr && before_ != nullptr;
}

void PeerRing::close_neighbours() noexcept {
  if (before_ != nullptr && before_ != next_) cudaIpcCloseMemHandle(before_);
  if (next_ != nullptr) cudaIpcCloseMemHandle(next_);
  next_ = before_ = nullptr;
}

// Memory is freed when nobody has it open any more. Collective over: host
void PeerRing::close() {
  await_counter(gpu::communication_stream(), own_ + kTaken, sent_);
  gpu::synchronize(check_nccl_progress);
  close_neighbours();
  host_.barrier();
  gpu::release(std::exchange(own_, nullptr));
  room_ = 0;
}

void PeerRing::send(const void* data, Bytes bytes) {
  COHORT_CHECK(bytes <= room_, "a message of {} bytes in a slot of {}", bytes, room_);
  const gpu::Stream stream = gpu::communication_stream();
  begun_.record(stream);
  await_counter(stream, own_ + kTaken, sent_);
  for_each_piece(bytes, [&](Bytes begin, Bytes length) {
    gpu::copy_async(next_ + kSlot + begin, static_cast<const std::byte*>(data) + begin, length, stream);
    write_counter(stream, next_ + kArrived, ++sent_);
  });
}

void PeerRing::receive(void* data, Bytes bytes) {
  begun_.order(taking_);
  for_each_piece(bytes, [&](Bytes begin, Bytes length) {
    await_counter(taking_, own_ + kArrived, ++received_);
    gpu::copy_async(static_cast<std::byte*>(data) + begin, own_ + kSlot + begin, length, taking_);
  });
  write_counter(taking_, before_ + kTaken, received_);
  taken_.record(taking_);
  taken_.order(gpu::communication_stream());
}

void PeerRing::all_gather(const void* own, void* all, Bytes block) {
  const auto place = [&](int steps) {
    const int owner = (host_.rank() + host_.size() - steps) % host_.size();
    return static_cast<std::byte*>(all) + owner * block;
  };
  if (place(0) != own) gpu::copy_async(place(0), own, block, gpu::communication_stream());
  for (int step = 0; step + 1 < host_.size(); ++step) {
    send(place(step), block);
    receive(place(step + 1), block);
  }
}

void PeerRing::let_go() noexcept {
  let_go_ = true;
  try {
    // On a stream of its own: the others stand still.
    gpu::Stream stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
    write_counter(stream, own_ + kTaken, sent_ + kFarAhead);
    write_counter(stream, own_ + kArrived, received_ + kFarAhead);
    check(cudaStreamSynchronize(stream), "letting go of a ring of GPUs");
    check(cudaStreamDestroy(stream), "destroying a stream");
  } catch (const std::exception&) {  // the device has failed, and no memory needs to be freed
  }
}

}  // namespace cohort
