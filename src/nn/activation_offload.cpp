#include "nn/activation_offload.hpp"

#include <cstring>
#include <memory>

#include "base/counting.hpp"
#include "base/counting_listener.hpp"
#include "base/work_tape.hpp"

namespace cohort {
namespace {

constexpr const char* kLaneLabel = "activations.lanes";
constexpr const char* kHostLabel = "activations.offloaded";

Arena lane_arena(DeviceKind device) { return Arena(kLaneLabel, device); }

}  // namespace

ActivationOffload::ActivationOffload(DeviceKind device)
    : device_(device),
      lanes_{Lane{.arena = lane_arena(device)}, Lane{.arena = lane_arena(device)}, Lane{.arena = lane_arena(device)}},
      host_(BufferPool::pinned(kHostLabel)) {
  if (device == DeviceKind::cpu) return;
  for (Lane& lane : lanes_) {
    lane.computed.emplace();
    lane.copied.emplace();
  }
}

ActivationOffload::Memory ActivationOffload::held() const {
  Memory memory;
  for (std::size_t lane = 0; lane < kLanes; ++lane) memory.lanes[lane] = lanes_[lane].arena.peak_bytes();
  memory.host = host_made_;
  return memory;
}

void ActivationOffload::reserve(const Memory& memory) {
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    if (memory.lanes[lane] > 0) lanes_[lane].arena.reserve(memory.lanes[lane]);
  }
  for (const auto& [bytes, count] : memory.host) host_.reserve(count, bytes, DType::u8);
  host_made_ = memory.host;
}

Arena& ActivationOffload::open(std::size_t block) {
  Lane& lane = lanes_[block % kLanes];
  order_after_copy(lane);
  lane.holds = 0;
  lane.arena.rewind({});
  return lane.arena;
}

ActivationOffload::Kept ActivationOffload::keep(std::size_t block) {
  Kept kept{.ticket = ++last_ticket_, .lane = block % kLanes};
  Lane& lane = lanes_[kept.lane];
  lane.holds = kept.ticket;
  if (lane.computed) lane.computed->record(gpu::compute_stream());
  order_after_compute(lane);
  copy_out(lane, kept);
  return kept;
}

void ActivationOffload::copy_out(Lane& lane, Kept& kept) {
  Bytes bytes = 0;
  for (const Tensor& here : lane.arena.in_use()) {
    const Tensor host = take_host(here.bytes());
    copy(host, here);
    bytes += here.bytes();
    kept.parts.push_back({here, host});
  }
  if (lane.copied) lane.copied->record(gpu::copy_stream());
  note_copies("offload", lane, bytes);
}

void ActivationOffload::fetch(const Kept& kept) {
  Lane& lane = lanes_[kept.lane];
  if (lane.holds == kept.ticket) return;
  lane.holds = kept.ticket;
  order_after_compute(lane);
  Bytes bytes = 0;
  for (const Kept::Part& part : kept.parts) {
    copy(part.here, part.host);
    bytes += part.here.bytes();
  }
  if (lane.copied) lane.copied->record(gpu::copy_stream());
  note_copies("fetch", lane, bytes);
  lane.arriving = true;
}

void ActivationOffload::await(const Kept& kept) {
  Lane& lane = lanes_[kept.lane];
  COHORT_CHECK(lane.holds == kept.ticket, "activations of a block that were not fetched");
  // Else it never left, and a copy to the host that may be under way reads as we do.
  if (lane.arriving) order_after_copy(lane);
}

void ActivationOffload::release(const Kept& kept) {
  Lane& lane = lanes_[kept.lane];
  lane.holds = 0;
  if (lane.computed) lane.computed->record(gpu::compute_stream());
  for (const Kept::Part& part : kept.parts) host_.give_back(part.host);
}

Tensor ActivationOffload::take_host(Bytes bytes) {
  if (!host_.has(bytes, DType::u8)) ++host_made_[bytes];
  return host_.take(bytes, DType::u8);
}

void ActivationOffload::order_after_compute(const Lane& lane) const {
  if (lane.computed) lane.computed->order(gpu::copy_stream());
}

void ActivationOffload::order_after_copy(Lane& lane) const {
  if (lane.copied) lane.copied->order(gpu::compute_stream());
  lane.arriving = false;
  if (!lane.copy) return;
  if (CountingListener* const listener = counting_listener()) listener->waits(*lane.copy);
  lane.copy.reset();
}

void ActivationOffload::copy(const Tensor& to, const Tensor& from) const {
  if (device_ == DeviceKind::gpu) {
    gpu::copy_async(to.raw(), from.raw(), from.bytes(), gpu::copy_stream());
  } else if (!counting()) {
    std::memcpy(to.raw(), from.raw(), static_cast<std::size_t>(from.bytes()));
  }
}

void ActivationOffload::note_copies(const char* operation, Lane& lane, Bytes bytes) const {
  if (bytes == 0) return;  // a chunk's first block that keeps nothing but its input, which is a message
  static const std::string kGroup(kHostGroup);
  static const auto kMembers = std::make_shared<const std::vector<int>>(1, 0);
  if (CountingListener* const listener = counting_listener())
    lane.copy = listener->communicates({operation, kGroup, kMembers, bytes, nullptr, nullptr});
}

}  // namespace cohort
