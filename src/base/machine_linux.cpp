#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/machine.hpp"
#include "base/memory_limit.hpp"

namespace cohort {
namespace {

std::string namespace_of(const char* kind) {
  std::error_code unreadable;
  return std::filesystem::read_symlink(std::string("/proc/self/ns/") + kind, unreadable).string();
}

}  // namespace

std::string boot_id() {
  std::string boot;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::getline(file, boot);
  return boot;
}

std::string process_namespace() { return namespace_of("pid"); }

std::string network_namespace() { return namespace_of("net"); }

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

Bytes second_level_cache() {
#ifdef _SC_LEVEL2_CACHE_SIZE  // of glibc alone
  return std::max(0L, ::sysconf(_SC_LEVEL2_CACHE_SIZE));
#else
  return 0;
#endif
}

Memory machine_memory() {
  Memory memory;
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    Bytes kibibytes = 0;
    words >> key >> kibibytes;
    if (key == "MemTotal:") memory.total = kibibytes * kKiB;
    if (key == "MemAvailable:") memory.available = kibibytes * kKiB;
  }
  std::ostringstream groups;
  groups << std::ifstream("/proc/self/cgroup").rdbuf();
  return within_control_groups(memory, groups.str());
}

}  // namespace cohort
