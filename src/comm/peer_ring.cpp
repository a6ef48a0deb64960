#include "comm/peer_ring.hpp"

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
#include "gpu/peer_memory.hpp"

namespace cohort {
namespace {

// In front of the slot. Each counter has a cache line of its own; the slot begins where any tensor could.
constexpr Bytes kArrived = 0;  // written by the rank before
constexpr Bytes kTaken = 256;  // written by the next rank
constexpr Bytes kSlot = 4096;

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

bool forbidden() {
  const char* const disabled = std::getenv("NCCL_P2P_DISABLE");
  return disabled != nullptr && std::string_view(disabled) == "1";
}

}  // namespace

std::unique_ptr<PeerRing> PeerRing::make(Communicator& host) {
  const std::string node = forbidden() ? "" : boot_id();
  if (!same_on_all_ranks(host, node) || node.empty()) return nullptr;
  std::unique_ptr<PeerRing> ring(new PeerRing(host));
  return ring->open(gpu::kShareGranule - kSlot) ? std::move(ring) : nullptr;
}

PeerRing::~PeerRing() {
  // Of a process that is about to end they may be in use.
  if (!let_go_ && std::uncaught_exceptions() == 0) close_neighbours();
}

void PeerRing::reserve(Bytes bytes) {
  if (bytes <= room_) return;
  close();
  if (!open(bytes)) fail(ExitCode::internal, "GPUs of this node can no longer reach each other's memory");
}

bool PeerRing::open(Bytes bytes) {
  const Bytes size = (kSlot + bytes + gpu::kShareGranule - 1) / gpu::kShareGranule * gpu::kShareGranule;
  std::optional<gpu::PeerHandle> handle;
  fail_together(host_, "making room for messages between GPUs", [&] {
    own_ = static_cast<std::byte*>(gpu::allocate(size, "messages around a ring"));
    gpu::zero_async(own_, kSlot, gpu::communication_stream());
    gpu::synchronize(check_nccl_progress);
    handle = gpu::share(own_);
  });
  const bool opened = open_neighbours(handle.value_or(gpu::PeerHandle{})) && handle;
  sent_ = received_ = 0;
  room_ = size - kSlot;
  if (all_reduce_value(host_, opened ? 0 : 1, ReduceOp::max) == 0) return true;
  close_neighbours();
  host_.barrier();
  gpu::release(std::exchange(own_, nullptr));
  return false;
}

// Collective over: host
bool PeerRing::open_neighbours(const gpu::PeerHandle& own_handle) {
  std::vector<gpu::PeerHandle> handles(static_cast<std::size_t>(host_.size()));
  host_.all_gather(own_handle.data(), handles.data(), sizeof(gpu::PeerHandle), DType::u8);
  next_ = gpu::open_peer(handles[static_cast<std::size_t>(next())]);
  before_ = before() == next() ? next_ : gpu::open_peer(handles[static_cast<std::size_t>(before())]);
  return next_ != nullptr && before_ != nullptr;
}

void PeerRing::close_neighbours() noexcept {
  if (before_ != nullptr && before_ != next_) gpu::close_peer(before_);
  if (next_ != nullptr) gpu::close_peer(next_);
  next_ = before_ = nullptr;
}

// Memory is freed when nobody writes to it any more, or has it open: all writes are on streams that their ranks wait for here.
// Collective over: host
void PeerRing::close() {
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
  gpu::await_counter(stream, own_ + kTaken, sent_);
  for_each_piece(bytes, [&](Bytes begin, Bytes length) {
    gpu::copy_async(next_ + kSlot + begin, static_cast<const std::byte*>(data) + begin, length, stream);
    gpu::write_counter(stream, next_ + kArrived, ++sent_);
  });
}

void PeerRing::receive(void* data, Bytes bytes) {
  begun_.order(taking_.get());
  for_each_piece(bytes, [&](Bytes begin, Bytes length) {
    gpu::await_counter(taking_.get(), own_ + kArrived, ++received_);
    gpu::copy_async(static_cast<std::byte*>(data) + begin, own_ + kSlot + begin, length, taking_.get());
  });
  gpu::write_counter(taking_.get(), before_ + kTaken, received_);
  taken_.record(taking_.get());
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
  if (own_ == nullptr) return;
  try {
    gpu::write_counter_soon(own_ + kTaken, sent_ + kFarAhead);
    gpu::write_counter_soon(own_ + kArrived, received_ + kFarAhead);
  } catch (const std::exception&) {  // the device has failed, and no memory needs to be freed
  }
}

}  // namespace cohort
