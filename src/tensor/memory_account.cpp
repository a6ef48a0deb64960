#include "tensor/memory_account.hpp"

#include <algorithm>
#include <mutex>

#include "base/counting.hpp"

namespace cohort {
namespace {

struct Account {
  std::mutex mutex;
  std::map<DeviceKind, std::map<std::string, MemoryUse>> uses;
  Bytes disk = 0;  // of a thread that counts
};

Account& account_of_process() {
  // Never destroyed: tensors with static lifetime are given back after everything else.
  static auto* const one = new Account;
  return *one;
}

Account& account_of_thread() {
  thread_local Account one;
  return one;
}

Account& account() { return counting() ? account_of_thread() : account_of_process(); }

}  // namespace

std::map<std::string, MemoryUse> memory_account(DeviceKind device) {
  const std::scoped_lock lock(account().mutex);
  return account().uses[device];
}

void reset_memory_peaks() {
  const std::scoped_lock lock(account().mutex);
  for (auto& [device, uses] : account().uses) {
    for (auto& [label, use] : uses) {
      use.peak = use.live;
      if (use.live == 0) use.used = 0;
    }
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

void count_disk(Bytes bytes) {
  if (counting()) account_of_thread().disk += bytes;
}

Bytes counted_disk() { return account_of_thread().disk; }

void forget_counted_memory() {
  account_of_thread().uses.clear();
  account_of_thread().disk = 0;
}

}  // namespace cohort
