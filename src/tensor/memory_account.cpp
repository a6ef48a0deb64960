#include "tensor/memory_account.hpp"

#include <algorithm>
#include <mutex>

namespace cohort {
namespace {

struct Account {
  std::mutex mutex;
  std::map<DeviceKind, std::map<std::string, MemoryUse>> uses;
};

// Never destroyed: tensors with static lifetime are given back after everything else.
Account& account() {
  static auto* const one = new Account;
  return *one;
}

}  // namespace

std::map<std::string, MemoryUse> memory_account(DeviceKind device) {
  const std::scoped_lock lock(account().mutex);
  return account().uses[device];
}

void reset_memory_peaks() {
  const std::scoped_lock lock(account().mutex);
  for (auto& [device, uses] : account().uses) {
    for (auto& [label, use] : uses) use.peak = use.live;
  }
}

void count_memory(const std::string& label, DeviceKind device, Bytes bytes) {
  const std::scoped_lock lock(account().mutex);
  MemoryUse& use = account().uses[device][label];
  use.live += bytes;
  use.peak = std::max(use.peak, use.live);
}

void count_used_memory(const std::string& label, DeviceKind device, Bytes growth) {
  const std::scoped_lock lock(account().mutex);
  account().uses[device][label].used += growth;
}

}  // namespace cohort
