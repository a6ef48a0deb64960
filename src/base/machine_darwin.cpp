#include <mach/mach.h>
#include <sys/sysctl.h>
#include <unistd.h>

#include <array>

#include "base/machine.hpp"

namespace cohort {
namespace {

std::string text_of_sysctl(const char* name) {
  std::array<char, 256> text{};
  std::size_t bytes = text.size() - 1;
  return sysctlbyname(name, text.data(), &bytes, nullptr, 0) == 0 ? text.data() : "";
}

}  // namespace

std::string boot_id() { return text_of_sysctl("kern.bootsessionuuid"); }

// All processes of a Mac see each other, and one loopback.
std::string process_namespace() { return "all"; }

std::string network_namespace() { return "all"; }

std::string cpu_model() {
  const std::string model = text_of_sysctl("machdep.cpu.brand_string");
  return model.empty() ? "unknown" : model;
}

Bytes second_level_cache() {
  std::uint64_t cache = 0;
  std::size_t bytes = sizeof cache;
  return sysctlbyname("hw.l2cachesize", &cache, &bytes, nullptr, 0) == 0 ? static_cast<Bytes>(cache) : 0;
}

Memory machine_memory() {
  std::uint64_t total = 0;
  std::size_t bytes = sizeof total;
  if (sysctlbyname("hw.memsize", &total, &bytes, nullptr, 0) != 0) return {};
  vm_statistics64_data_t pages{};
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  if (host_statistics64(mach_host_self(), HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&pages), &count) != KERN_SUCCESS)
    pages = {};
  const Bytes free_pages = static_cast<Bytes>(pages.free_count) + static_cast<Bytes>(pages.inactive_count);
  return {.total = static_cast<Bytes>(total), .available = free_pages * static_cast<Bytes>(getpagesize())};
}

}  // namespace cohort
