// XIDs: the numbered error reports of NVIDIA's driver (a fault in memory, a card that fell off the bus, a kernel at a wrong
// address; the list is in NVIDIA's "XID errors"). After most of them the card's results are not to be trusted.
#pragma once

#include <optional>
#include <string>

struct nvmlEventSet_st;

namespace cohort::gpu {

class XidListener {
 public:
  /// Listens from now on; hears nothing where there is no NVML, or events are not offered.
  explicit XidListener(const std::string& pci_id);
  ~XidListener();
  XidListener(const XidListener&) = delete;
  XidListener& operator=(const XidListener&) = delete;

  /// The next XID that has come, if one has; does not wait.
  std::optional<int> next();

 private:
  nvmlEventSet_st* events_ = nullptr;
};

}  // namespace cohort::gpu
