#include "gpu/xid_listener.hpp"

#include "gpu/nvml_library.hpp"

namespace cohort::gpu {
namespace {

constexpr unsigned long long kXidEvent = 0x8;  // nvmlEventTypeXidCriticalError

}  // namespace

XidListener::XidListener(const std::string& pci_id) {
  const NvmlLibrary* nvml = NvmlLibrary::of_process();
  const NvmlDevice device = nvml != nullptr ? nvml->device(pci_id) : nullptr;
  if (device == nullptr || nvml->event_set_create == nullptr || nvml->event_set_free == nullptr ||
      nvml->register_events == nullptr || nvml->event_set_wait == nullptr) {
    return;
  }
  NvmlEventSet events = nullptr;
  if (nvml->event_set_create(&events) != NvmlLibrary::kSuccess) return;
  if (nvml->register_events(device, kXidEvent, events) != NvmlLibrary::kSuccess) {
    nvml->event_set_free(events);
    return;
  }
  events_ = events;
}

XidListener::~XidListener() {
  if (events_ != nullptr) NvmlLibrary::of_process()->event_set_free(events_);
}

std::optional<int> XidListener::next() {
  NvmlEventData event{};
  if (events_ == nullptr || NvmlLibrary::of_process()->event_set_wait(events_, &event, 0) != NvmlLibrary::kSuccess) {
    return std::nullopt;
  }
  return static_cast<int>(event.data);
}

}  // namespace cohort::gpu
