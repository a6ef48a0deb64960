#include "tensor/memory_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "gpu/device.hpp"
#include "gpu/memory_probe.hpp"

namespace cohort {
namespace {

constexpr std::size_t kMostLabels = 8;  // what fits a line that a person reads

std::string describe_tensors(const std::map<std::string, MemoryUse>& tensors) {
  std::vector<std::pair<std::string, MemoryUse>> uses;
  for (const auto& [label, use] : tensors) {
    if (use.live > 0) uses.emplace_back(label, use);
  }
  std::stable_sort(uses.begin(), uses.end(), [](const auto& a, const auto& b) { return a.second.live > b.second.live; });
  std::vector<std::string> parts;
  Bytes rest = 0;
  for (const auto& [label, use] : uses) {
    if (parts.size() == kMostLabels) {
      rest += use.live;
      continue;
    }
    // An arena that has ended took its `live` with it, not its `used`.
    const std::string used = use.used > 0 ? fmt::format(" ({} used)", human_bytes(std::min(use.used, use.live))) : "";
    parts.push_back(fmt::format("{} {}{}", label, human_bytes(use.live), used));
  }
  if (rest > 0) parts.push_back(fmt::format("{} more {}", uses.size() - kMostLabels, human_bytes(rest)));
  return parts.empty() ? "none" : join(parts);
}

}  // namespace

DeviceMemoryReport device_memory_report(bool try_largest) {
  const gpu::MemoryInfo memory = gpu::memory();
  DeviceMemoryReport report{memory.total, memory.free, std::nullopt, memory_account(DeviceKind::gpu)};
  if (try_largest) report.largest = gpu::largest_allocation();
  return report;
}

std::string describe(const DeviceMemoryReport& report) {
  Bytes tensors = 0;
  for (const auto& [label, use] : report.tensors) tensors += use.live;
  const std::string largest = report.largest ? fmt::format(" (largest block {})", human_bytes(*report.largest)) : "";
  const Bytes others = std::max<Bytes>(0, report.total - report.free - tensors);
  return fmt::format("{} of device memory, {} free{}; tensors {}: {}; other {} (CUDA, NCCL, cuBLASLt, other processes)",
                     human_bytes(report.total), human_bytes(report.free), largest, human_bytes(tensors),
                     describe_tensors(report.tensors), human_bytes(others));
}

}  // namespace cohort
